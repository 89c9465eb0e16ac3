//! Rules about CPUs: saturated core, saturated thread, saturated host, throttling, steal, hidden and short-lived CPU time, load.

pub mod affinity;
pub mod cgroup_weight;
pub mod clauses;
pub mod clock_rate;
pub mod cpu_saturated;
pub mod cpu_stolen;
pub mod cpu_throttled;
pub mod demand;
pub mod free_cpus;
pub mod frequent_switches;
pub mod hidden_cpu;
pub mod kernel_work;
pub mod load_average;
pub mod low_weight;
pub mod priority;
pub mod run_queue;
pub mod saturated_core;
pub mod saturated_thread;
pub mod serialized_threads;
pub mod short_lived;
pub mod softirq;
pub mod starved_thread;
