# Before systemd: the units as they are deployed, a stand-in for who starts pods, and what asks questions afterwards.
# $1: PATH with the lab's tools. Here: the run's folder, with fabric.yaml, checkout, questions.
set -ex
units=/etc/systemd/system
checkout=$(cat /run/lab/checkout)
rm -rf $units/*.wants
mkdir -p /etc/systemd/network /opt/roceway /etc/roceway
ln -sf /dev/null /etc/systemd/network/99-default.link  # sim0 stays sim0
ln -sfn "$checkout/.venv/bin" /opt/roceway/bin
cp "$checkout"/conf/deploy/roceway-tune*.service $units/
cp /run/lab/fabric.yaml /etc/roceway/
cat >$units/kubelet.service <<UNIT
[Service]
Type=oneshot
RemainAfterExit=yes
Environment=PATH=$1
ExecStart=/bin/sh -c 'dcb pfc show dev sim0 >/run/lab/at-kubelet; systemctl is-active roceway-tune >>/run/lab/at-kubelet'
UNIT
cat >$units/questions.service <<UNIT
[Unit]
After=kubelet.service roceway-tune-watch.service
[Service]
Type=oneshot
Environment=PATH=$1
TimeoutStartSec=600
ExecStart=/bin/sh /run/lab/questions
UNIT
late=$(basename "$(readlink -f /sys/class/net/sim4/device)")
echo "$late" >/sys/bus/pci/drivers/simroce/unbind  # its driver loads late
cat >$units/late.service <<UNIT
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'until journalctl -b -o cat -u roceway-tune | grep -q waiting; do sleep 0.5; done; echo $late >/sys/bus/pci/drivers/simroce/bind'
UNIT
cat >$units/lab.target <<UNIT
[Unit]
Requires=basic.target
After=basic.target
Wants=network.target late.service kubelet.service roceway-tune.service roceway-tune-watch.service questions.service
UNIT
