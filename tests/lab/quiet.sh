#!/usr/bin/env bash
# quiet.sh LOAD|all [SECONDS]: records SECONDS (600) of ordinary work, in which nothing is wrong, and prints every finding of it, for
# docs/quiet.md. As root, on a machine that does nothing else.
#
#   idle      nothing                             build    cargo build --release of this source, from nothing, again and again
#   apt       apt-get install of 50 packages,     backup   tar of /usr, compressed by zstd into a file, again and again
#             and their removal, again and again  java     a Java service with 32 threads and a request a second
#   desktop   a browser with an animation, git,   node     a Node service with a timer and a request a second
#             searches and small compilations
#
# STALLTOP=PROGRAM (target/release/stalltop). Recordings and what the loads print stay in target/quiet.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${2:-600} out=$PWD/target/quiet stalltop=${STALLTOP:-target/release/stalltop}

again() { while :; do "$@"; done; }
requests() { while sleep 1; do curl --silent --output /dev/null "http://127.0.0.1:$1/" || true; done; }

load_idle() { exec sleep infinity; }
load_build() {
  once() { rm -rf "$work/target" && CARGO_TARGET_DIR=$work/target cargo build --locked --release --quiet; }
  again once
}

# Small programs without services. What comes with them is removed with them, and nothing else.
packages='cowsay figlet toilet sl lolcat fortune-mod cmatrix bsdgames rig boxes jp2a aview caca-utils dict pv tree ncdu ranger mc nnn vifm
  lynx w3m links elinks dos2unix moreutils jo jq gron miller datamash units bc dc gnuplot-nox graphviz txt2man help2man ruby lua5.4 tcl
  gawk sox flac vorbis-tools opus-tools lame mpg123 imagemagick optipng pngquant jpegoptim gifsicle exiv2 qrencode zbar-tools barcode
  unrtf antiword catdoc'
load_apt() {
  export DEBIAN_FRONTEND=noninteractive
  installed() { dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | awk '$1 == "ii" { print $2 }' | sort -u; }
  once() {
    local before chosen
    before=$(installed)
    mapfile -t chosen < <(apt-cache pkgnames | grep -Fxf <(printf '%s\n' $packages) | grep -Fxvf <(echo "$before") | sort | head -n 50)
    apt-get install -yq --no-install-recommends "${chosen[@]}"
    installed | comm -13 <(echo "$before") - | xargs apt-get purge -yq
  }
  apt-get update -q && again once
}

load_backup() {
  once() { tar --create --one-file-system --directory / usr | zstd --quiet --force -T1 -o "$work/backup.tar.zst"; }
  again once
}

load_java() {
  cat >"$work/Service.java" <<'JAVA'
import com.sun.net.httpserver.HttpServer;
import java.util.concurrent.*;
public class Service {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new java.net.InetSocketAddress("127.0.0.1", 18180), 50);
        server.setExecutor(Executors.newFixedThreadPool(32));
        server.createContext("/", request -> { request.sendResponseHeaders(204, -1); request.close(); });
        Executors.newScheduledThreadPool(4).scheduleAtFixedRate(() -> { }, 0, 20, TimeUnit.MILLISECONDS);
        server.start();
    }
}
JAVA
  javac -d "$work" "$work/Service.java"
  java -cp "$work" Service &
  requests 18180
}

load_node() {
  node -e 'setInterval(() => {}, 20); require("http").createServer((_, answer) => answer.end("ok")).listen(18181, "127.0.0.1")' &
  requests 18181
}

load_desktop() {
  printf '%s' '<canvas id=c></canvas><script>let n=0;(function f(){c.getContext("2d").fillRect(n++%300,n%150,9,9);requestAnimationFrame(f)})()</script>' \
    >"$work/page.html"
  chromium --headless=new --no-sandbox --disable-gpu --disable-breakpad --user-data-dir="$work/profile" --remote-debugging-port=0 "file://$work/page.html" &
  once() {
    git log -p -n 50 >"$work/log" && sleep 4
    find /usr/share -name '*.mo' >"$work/found" && sleep 6
    gcc -O2 -pthread -o "$work/convoy" tests/lab/loads/convoy.c && sleep 10
  }
  again once
}

# Ends the load and removes its files.
clear() {
  kill -TERM -- -$load 2>/dev/null && sleep 2 || true
  kill -KILL -- -$load 2>/dev/null || true
  wait $load 2>/dev/null || true
  rm -rf "$work"
}

run() {
  local name=$1 file=$out/$1.stalltop ended=
  export work=$(mktemp -d)
  mkdir -p "$out" && rm -f "$file"
  # A session of its own, so that all of it ends at once.
  setsid "$0" --load "$name" >"$out/$name.log" 2>&1 </dev/null &
  load=$!
  trap clear EXIT
  XDG_STATE_HOME=$work/state "$stalltop" record --for "${seconds}s" "$file" >/dev/null
  kill -0 $load 2>/dev/null || ended=yes
  clear && trap - EXIT
  printf '\n== %s: %s s, %s, %s CPUs, Linux %s\n' "$name" "$seconds" "$(date +%F)" "$(nproc)" "$(uname -r)"
  if [ -n "$ended" ]; then
    printf 'no result, the load has ended by itself: %s\n' "$(tail -n 1 "$out/$name.log")"
    return 1
  fi
  # The whole time in a line, then each finding as it begins, changes and ends.
  { "$stalltop" check "$file" || true; } | sed -n 1p
  "$stalltop" check --watch "$file" || true
}

loads='idle build apt backup java node desktop'
case ${1-} in
  --load) "load_$2" ;;
  all) for name in $loads; do run "$name" || true; done ;;
  *) [[ -n ${1-} && " $loads " == *" $1 "* ]] || { sed -n '2,11s/^# \{0,1\}//p' "$0" && exit 2; } && run "$1" ;;
esac
