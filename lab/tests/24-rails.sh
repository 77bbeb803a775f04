# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154,SC2034
#
# weir rails with device memory: two pairs of NICs, each a rail.

path=devmem
kernel_at_least 6.16 || path=auto # sends through host memory
memory="--mem udmabuf --mem-size 8M -T 1 -F 2 -B 64K"

rails_up() {
	lab_up pairs=2
	near_nics="lab0 lab2" far_nics="lab1 lab3"
	ip address add 10.9.1.1/24 dev lab2
	ip link set lab3 netns "$(cat "$far_pid_file")"
	ip link set lab2 up
	far sh -ec 'ip address add 10.9.1.2/24 dev lab3; ip link set lab3 up'
	nics >/tmp/nics.before
}

serve_rails() {
	# shellcheck disable=SC2086 # words
	nsenter -t "$(cat "$far_pid_file")" -n -m weir rails --once --out /tmp/server.json --devices lab1,lab3 $memory \
		-- --path devmem >/tmp/server 2>&1 &
	server=$!
	eventually listening
}

# Sets status: 3 is a doubt, mostly about a steady rate.
run_rails() {
	status=0
	# shellcheck disable=SC2086
	weir rails -c --out /tmp/client.json -H "$far4,10.9.1.2" --devices lab0,lab2 -l 1 --validate $memory \
		-- --path $path --warmup 0 >/tmp/client 2>&1 || status=$?
	wait "$server" || true
}

# received NIC: what came into device memory by it
received() {
	far ethstat "$1" | awk '/rx_devmem_bytes/ { sum += $2 } END { printf "%.0f", sum }'
}

test_every_rail_has_its_own_device_memory() {
	rails_up
	serve_rails
	run_rails
	[ $status -eq 0 ] || [ $status -eq 3 ] || { cat /tmp/client && return 1; }
	[ "$(received lab1)" -gt 100000 ]
	[ "$(received lab3)" -gt 100000 ]
	says server '"device":"lab1".*"rx_path":"devmem".*"device":"lab3".*"rx_path":"devmem"'
	! grep -q wrong_payload /tmp/server.json
	unchanged
}

test_a_rail_that_is_refused_is_named_and_the_other_measured() {
	rails_up
	far occupy xsk lab3 3 >/tmp/occupy &
	eventually grep -q ready /tmp/occupy
	serve_rails
	run_rails
	[ $status -eq 1 ]
	grep -q 'lab3.*AF_XDP' /tmp/server
	[ "$(received lab1)" -gt 100000 ]
	[ "$(received lab3)" -eq 0 ]
}
