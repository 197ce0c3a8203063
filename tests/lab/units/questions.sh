# In the running machine. Each answer is a file in the run's folder.
cd /run/lab
state() { systemctl show -p ActiveState,Result,ExecMainStatus,NRestarts "$1"; }
until_true() { for _ in $(seq 240); do "$@" >/dev/null 2>&1 && return; sleep 0.25; done; }
pfc() { dcb pfc show dev sim0; }
on() { pfc | grep -q "$1:on"; }
off() { pfc | grep -q "$1:off"; }
mended() { off 4 && on 3; }

until_true test -s /var/lib/roceway/verify.json
{ state roceway-tune; } >applied
journalctl -b --no-pager -o cat -u roceway-tune >applied.log
{ state roceway-tune-watch; systemctl --failed --no-legend; } >watching
cp /var/lib/roceway/verify.json verify.json

dcb pfc set dev sim0 prio-pfc 4:on
until_true mended
pfc >mended

ip netns add pod && ip link add mv0 link sim0 type macvlan && ip link set mv0 netns pod
dcb pfc set dev sim0 prio-pfc 4:on
systemctl restart roceway-tune
state roceway-tune >restarted
journalctl -b --no-pager -o cat -u roceway-tune >restarted.log
ip netns del pod

systemctl kill -s KILL roceway-tune-watch
restarted() { systemctl show -p NRestarts,ActiveState roceway-tune-watch | grep -c "NRestarts=1\|ActiveState=active" | grep -q 2; }
until_true restarted
state roceway-tune-watch >killed
systemctl stop roceway-tune-watch
state roceway-tune-watch >stopped

printf '{"kind": "Fabric"}' >/etc/roceway/fabric.yaml
systemctl restart roceway-tune
state roceway-tune >mistaken
journalctl -b --no-pager -o cat -u roceway-tune >mistaken.log
journalctl -b --no-pager >journal
dmesg >dmesg
echo 0 >exit
sync
printf '\0' | dd of=/dev/port bs=1 seek=244 2>/dev/null  # QEMU's isa-debug-exit
