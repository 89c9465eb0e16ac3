#!/usr/bin/env bash
# rpm.sh FIRST.rpm NEXT.rpm: checks the package and installs, upgrades and erases it with rpm in a root whose systemd runs; an upgrade
# restarts the recorder and stalltop-serve. The root is Debian's, with an empty rpm data base: no distribution with rpm can be had from
# Debian's packages, so that what other packages provide (/bin/sh) is not asked for. Needs root and rpm.
set -euo pipefail
first=$(realpath "$1") next=$(realpath "$2")
. "$(dirname "$0")/root.sh"
[ "$(id -u)" = 0 ] || skip 'rpm in a clean root needs root'
command -v rpm >/dev/null || apt-get install -yq --no-install-recommends rpm >/dev/null 2>&1 || true
command -v rpm >/dev/null || skip 'rpm cannot be installed'

rpm --checksig "$first" | tee "$place/signature"
grep -q 'digests OK' "$place/signature" || fail 'rpm --checksig'
rpm --query --list --package "$first" >"$place/list"
for file in /usr/bin/stalltop /etc/stalltop/config.toml /usr/lib/systemd/system/$service \
  /usr/lib/systemd/system/stalltop-armed.service /usr/lib/systemd/system/stalltop-serve.service \
  /usr/share/doc/stalltop/prometheus/stalltop.rules.yml /usr/share/man/man1/stalltop.1 \
  /usr/share/bash-completion/completions/stalltop /usr/share/zsh/site-functions/_stalltop \
  /usr/share/doc/stalltop/SECURITY.md /usr/share/doc/stalltop/docs/start.md /usr/share/doc/stalltop/docs/symptoms/index.md \
  /usr/share/doc/stalltop/docs/screens/overview.svg /usr/share/licenses/stalltop/THIRD-PARTY.txt; do
  grep -qx "$file" "$place/list" || fail "$file is not in it"
done
[ "$(rpm --query --configfiles --package "$first")" = /etc/stalltop/config.toml ] || fail 'its configuration is not marked'
requires=$(rpm --query --requires --package "$first" | grep -v -e '^rpmlib' -e '^config(stalltop)' | sort -u | xargs)
[ "$requires" = /bin/sh ] || fail "it requires $requires"
ok "checked: $(wc -l <"$place/list") files, requires $requires"

root=$place/root
clean_root "$root"
cp "$first" "$root/root/first.rpm"
cp "$next" "$root/root/next.rpm"
boot "$root" || skip 'systemd does not start in a root of its own here'
package() { inside rpm --force-debian --nodeps "$@"; }
inside rpm --initdb
files "$root" >"$place/before"

package --install /root/first.rpm
version=$(rpm --query --queryformat '%{VERSION}' --package "$first")
[ "$(inside stalltop --version)" = "stalltop $version" ] || fail 'stalltop --version'
[ "$(inside systemctl is-active $service)" = inactive ] || fail 'installing it starts the recorder'
[ "$(inside systemctl is-enabled $service)" = disabled ] || fail 'installing it enables the recorder'
[ -z "$(package --verify stalltop)" ] || fail 'rpm --verify'
ok 'installed: it runs, the recorder is neither enabled nor started'

echo '# of the administrator' >>"$root/etc/stalltop/config.toml"
inside systemctl enable --now $service 2>/dev/null
recordings=$root/var/lib/private/stalltop-record
recorded() { compgen -G "$recordings/*.stalltop"; }
soon recorded || { inside systemctl status $service || true; fail 'the recorder records nothing'; }
inside systemctl start stalltop-serve
soon served || { inside systemctl status stalltop-serve || true; fail 'stalltop-serve does not answer'; }
old=$(main_pid) old_serve=$(main_pid stalltop-serve)
package --upgrade /root/next.rpm
soon other_pid $service "$old" || fail 'an upgrade does not restart the recorder'
soon other_pid stalltop-serve "$old_serve" || fail 'an upgrade does not restart stalltop-serve'
soon served || fail 'stalltop-serve does not answer after an upgrade'
[ "$(inside systemctl is-active $service)" = active ] || fail 'the recorder is not active after an upgrade'
grep -q 'of the administrator' "$root/etc/stalltop/config.toml" || fail 'an upgrade changes the configuration'
ok "upgraded: the recorder is restarted (process $old, then $(main_pid)), stalltop-serve too ($old_serve, then \
$(main_pid stalltop-serve)), the configuration is kept"

package --erase stalltop
[ "$(inside systemctl is-active $service)" != active ] || fail 'the recorder still runs'
[ "$(inside systemctl is-active stalltop-serve)" != active ] || fail 'stalltop-serve still runs'
[ "$(inside systemctl is-enabled $service 2>/dev/null)" != enabled ] || fail 'the recorder is still enabled'
recorded >/dev/null || fail 'erasing the package removes recordings'
grep -q 'of the administrator' "$root/etc/stalltop/config.toml.rpmsave" || fail 'a changed configuration is lost'
rm -r "$root/etc/stalltop"
rm -rf "$root/var/lib/stalltop-record" "$root/var/lib/stalltop-armed" "$root/var/lib/stalltop-serve" "$root/var/lib/stalltop"
files "$root" >"$place/after"
# Directories of other packages, which a distribution with rpm has and this root has not, stay.
others='^> ./usr/share/\(fish\|fish/vendor_completions.d\|licenses\|zsh/site-functions\)$'
left=$(diff "$place/before" "$place/after" | grep '^[<>]' | grep -v "$others") || true
[ -z "$left" ] || fail "erasing it leaves files: $left"
ok 'erased: only recordings are left'
