#!/bin/sh
# The first process of the lab's guest on its final root, which is the host's, copy-on-write.
# Sets up what an init would, runs /run/lab/start and ends the machine. $1: the lab's software, $2: where guests see it.
software=$1 root=$2
export PATH="$root/guest-bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 ROCEWAY_LAB=1
mount -t proc -o nosuid proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm && mount -t devpts -o ptmxmode=666 devpts /dev/pts && mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mount -t debugfs debugfs /sys/kernel/debug
mount -t cgroup2 cgroup2 /sys/fs/cgroup
libraries=usr/lib/x86_64-linux-gnu/libibverbs settings=etc/libibverbs.d
mkdir -p /run/lab /run/netns /lib/modules "$root" "/$libraries" "/$settings"
mount -t 9p -o trans=virtio,version=9p2000.L,msize=131072 run /run/lab
mount --bind "$software" "$root"
mount --bind "$root/usr/lib/modules" /lib/modules
mount --bind "$root/$libraries" "/$libraries"
mount --bind "$root/$settings" "/$settings"
ln -sfn /proc/self/fd /dev/fd
hostname lab
ip link set lo up
: >/run/netns/host && mount --bind /proc/1/ns/net /run/netns/host  # so that tools can name the machine's own
sh /run/lab/start
status=$?
dmesg >/run/lab/dmesg
echo $status >/run/lab/exit
printf '\0' | dd of=/dev/port bs=1 seek=244 2>/dev/null  # QEMU's isa-debug-exit, 0xf4: quicker than a shutdown
echo o >/proc/sysrq-trigger
sleep 30
