#!/bin/sh
# As guest/init.sh, but what runs then is systemd: the deployed units, started by the real thing, on the simulated NICs.
# $1: the lab's software, $2: where guests see it.
software=$1 root=$2
export PATH="$root/guest-bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
mount -t proc -o nosuid proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lab /lib/modules "$root"
mount -t 9p -o trans=virtio,version=9p2000.L,msize=131072 run /run/lab
mount --bind "$software" "$root"
mount --bind "$root/usr/lib/modules" /lib/modules
for folder in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 tmpfs $folder; done  # systemd would clean the host's
rm -f /.dockerenv /run/.containerenv  # a virtual machine, whatever the host is
hostname lab && echo lab >/etc/hostname
sh /run/lab/start
sh /run/lab/prepare "$PATH" >/run/lab/prepare.log 2>&1
exec /lib/systemd/systemd --log-target=console --unit=lab.target
