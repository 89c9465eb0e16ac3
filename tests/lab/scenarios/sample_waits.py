#!/usr/bin/env python3
# sample_waits.py SECONDS [MINIMUM]: samples state, wchan and system call of all threads; prints the mean number of threads per
# (state, wchan, system call, comm) that is at least MINIMUM (0.3). Permanently sleeping threads of known tools are left out.
import os,sys,time,collections
skip={'bash','sleep','btop','tokio-rt-worker','stop-step','tail','ps'}
c=collections.Counter(); n=0; e=time.time()+float(sys.argv[1]); rd=lambda p: open(p).read()
while time.time()<e:
    n+=1
    for p in os.listdir('/proc'):
        if not p.isdigit(): continue
        try:
            ts=os.listdir(f'/proc/{p}/task')
        except OSError: continue
        for t in ts:
            b=f'/proc/{p}/task/{t}/'
            try:
                s=rd(b+'stat'); comm=s[s.index('(')+1:s.rindex(')')]; st=s[s.rindex(')')+2]
                if comm in skip or comm in ('pidstat','mpstat','iostat','vmstat','sar','sadc','bpftrace','grep','head','truth.sh','process_api') or (comm.startswith('memfd') ): continue
                if st=='I' or (s[s.rindex(')')+2:].split()[1] in ('2','0') and st not in 'DR'): continue
                w=rd(b+'wchan') or '-'
                y=rd(b+'syscall').split()[:1]
            except (OSError,ValueError): continue
            c[(st,w,comm,y[0] if y else '')]+=1
    time.sleep(0.3)
for k,v in c.most_common(400):
    if v/n>=float(sys.argv[2] if len(sys.argv)>2 else 0.3): print(f'{v/n:7.1f}  {k[0]}  {k[1]:<26} sys={k[3]:<8} {k[2]}')
