#!/usr/bin/env bash
# deb.sh FIRST.deb NEXT.deb: installs, runs, upgrades, removes and purges the package in a clean root of Debian with systemd
# running: the pages' commands run as printed, for an ordinary user and for root, the recorder is not started by itself, it is
# restarted by an upgrade, recordings outlive a removal, and a purge leaves nothing. Needs root.
set -euo pipefail
first=$(realpath "$1") next=$(realpath "$2")
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/packages/root.sh"
. "$here/tests/packages/pages.sh"
[ "$(id -u)" = 0 ] || skip 'dpkg in a clean root needs root'
root=$place/root
clean_root "$root"
cp "$first" "$root/root/first.deb"
cp "$next" "$root/root/next.deb"
files "$root" >"$place/before"

boot "$root" || skip 'systemd does not start in a root of its own here'
inside useradd --no-create-home new
# systemd makes files of its own when it starts.
files "$root" >"$place/before"

inside dpkg --install /root/first.deb >"$place/log" 2>&1 || { cat "$place/log"; fail 'dpkg --install'; }
version=$(dpkg-deb --field "$first" Version)
[ "$(inside stalltop --version)" = "stalltop ${version%-*}" ] || fail 'stalltop --version'
code=0
promptly 'check --for 2s' inside stalltop check --for 2s >"$place/check" || code=$?
[ $code -le 2 ] || fail "stalltop check: exit code $code"
promptly 'demo 1 | cat' inside sh -c 'stalltop demo 1 | cat' >"$place/demo"
grep -q 'idle but blocked' "$place/demo" || fail "stalltop demo 1: $(cat "$place/demo")"
inside stalltop doctor | grep -q '/etc/stalltop/config.toml' || fail 'doctor does not name the configuration'
[ -z "$(inside dpkg --verify stalltop)" ] || fail 'dpkg --verify'
[ "$(inside systemctl is-active $service)" = inactive ] || fail 'installing it starts the recorder'
[ "$(inside systemctl is-enabled $service)" = disabled ] || fail 'installing it enables the recorder'
for file in usr/share/man/man1/stalltop.1.gz usr/share/man/man1/stalltop-check.1.gz usr/share/doc/stalltop/copyright \
  usr/share/doc/stalltop/THIRD-PARTY.txt usr/share/bash-completion/completions/stalltop \
  usr/share/zsh/vendor-completions/_stalltop usr/share/fish/vendor_completions.d/stalltop.fish \
  usr/share/doc/stalltop/prometheus/stalltop.rules.yml usr/share/doc/stalltop/docs/start.md \
  usr/share/doc/stalltop/SECURITY.md usr/share/doc/stalltop/LICENSE-MIT usr/share/doc/stalltop/docs/symptoms/index.md usr/share/doc/stalltop/docs/screens/overview.svg; do
  [ -s "$root/$file" ] || fail "$file is not there"
done
ok 'installed: it runs, the recorder is neither enabled nor started'

# As the package has them.
diff -r "$here/docs/symptoms" "$root/usr/share/doc/stalltop/docs/symptoms" || fail 'the pages of the package are others'
if connect; then
  for user in new root; do
    entrance $user "$place/enter"
    pages "Debian, $user" "$place/enter"
  done
else
  skipped "the commands of the pages: no interface can be made"
fi

inside dpkg --install /root/next.deb >/dev/null
[ "$(inside systemctl is-active $service)" = inactive ] || fail 'an upgrade starts a recorder that did not run'
inside dpkg --install /root/first.deb >/dev/null 2>&1
echo '# of the administrator' >>"$root/etc/stalltop/config.toml"
inside systemctl enable --now $service 2>/dev/null
recordings=$root/var/lib/private/stalltop-record
recorded() { compgen -G "$recordings/*.stalltop"; }
soon recorded || { inside systemctl status $service || true; fail 'the recorder records nothing'; }
inside systemctl start stalltop-serve
soon served || { inside systemctl status stalltop-serve || true; fail 'stalltop-serve does not answer'; }
old=$(main_pid) old_serve=$(main_pid stalltop-serve)
inside dpkg --install /root/next.deb >/dev/null
soon other_pid $service "$old" || fail 'an upgrade does not restart the recorder'
soon other_pid stalltop-serve "$old_serve" || fail 'an upgrade does not restart stalltop-serve'
soon served || fail 'stalltop-serve does not answer after an upgrade'
[ "$(inside systemctl is-active $service)" = active ] || fail 'the recorder is not active after an upgrade'
grep -q 'of the administrator' "$root/etc/stalltop/config.toml" || fail 'an upgrade changes the configuration'
ok "upgraded: the recorder is restarted (process $old, then $(main_pid)), stalltop-serve too ($old_serve, then \
$(main_pid stalltop-serve)), the configuration is kept"

inside dpkg --remove stalltop >/dev/null
[ ! -e "$root/usr/bin/stalltop" ] || fail 'the binary is still there'
[ "$(inside systemctl is-active $service)" != active ] || fail 'the recorder still runs'
[ "$(inside systemctl is-active stalltop-serve)" != active ] || fail 'stalltop-serve still runs'
recorded >/dev/null || fail 'removing the package removes recordings'
[ -e "$root/etc/stalltop/config.toml" ] || fail 'removing the package removes the configuration'
ok "removed: recordings are kept: $(recorded | wc -l)"

inside dpkg --purge stalltop >/dev/null
[ ! -e "$recordings" ] || fail 'recordings are still there'
files "$root" >"$place/after"
diff "$place/before" "$place/after" || fail 'a purge leaves files'
! inside dpkg-query --show stalltop 2>/dev/null || fail 'dpkg still knows it'
ok 'purged: nothing is left'
