#!/bin/sh
# Makes tasks.bpf.o from tasks.bpf.c, into the folder given (default: this one).
# Debian 12: apt-get install clang-16 llvm-16 libbpf-dev linux-libc-dev
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
cd "$here"
clang-16 -target bpf -mcpu=v2 -O2 -g -Wall -Werror -fdebug-compilation-dir=. -I"/usr/include/$(uname -m)-linux-gnu" \
  -c tasks.bpf.c -o "$out/tasks.bpf.o"
llvm-strip-16 -g "$out/tasks.bpf.o"
