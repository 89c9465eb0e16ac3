#!/bin/sh
# Makes each NAME.bpf.o.zst from NAME.bpf.c, into the folder given (default: this one).
# Debian 12: apt-get install clang-16 llvm-16 libbpf-dev linux-libc-dev zstd
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
cd "$here"
for name in tasks block file_systems run_queue task_layout wakes lock_wakers query; do
  # wakes, query: atomic operations, of Linux 5.12
  case $name in wakes | query) cpu=v3 ;; *) cpu=v2 ;; esac
  clang-16 -target bpf -mcpu=$cpu -O2 -g -Wall -Werror -fdebug-compilation-dir=. -I"/usr/include/$(uname -m)-linux-gnu" \
    -c "$name.bpf.c" -o "$out/$name.bpf.o"
  # Labels and the relocations of the types are not needed to load it: a third of the file.
  llvm-strip-16 -g -w -N 'LBB*' -R .rel.BTF -R .rel.BTF.ext "$out/$name.bpf.o"
  zstd -q -19 -f --rm "$out/$name.bpf.o"
done
