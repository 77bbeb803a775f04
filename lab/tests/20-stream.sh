# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# weir stream from and into device memory: every byte is validated where it lies, and the NICs' own counters say
# which way it went.

payload=300000 # an emulated second brings at least this

# between SERVER_OPTIONS CLIENT_OPTIONS
between() {
	# shellcheck disable=SC2086 # words
	serve stream $1
	# shellcheck disable=SC2086
	measure stream -l 1 --warmup 0 --validate $2
}

test_host_to_udmabuf() {
	lab_up
	between "--mem udmabuf --mem-size 8M --path devmem" "-H $far4"
	at_least $payload far rx_devmem_bytes
	equals 0 far from_devmem_bytes
	says server '"nic":"lab1","queues":"3"'
	says server '"tokens_left":0,"pool_stalls":0'
	says server '"rx_path":"devmem","tx_path":null'
	says client '"tokens_peak":[1-9]' # what the server told it
}

test_udmabuf_to_host() {
	tx_possible
	lab_up
	between "" "-H $far4 --mem udmabuf --mem-size 8M --path devmem"
	at_least $payload far from_devmem_bytes
	equals 0 far rx_devmem_bytes
	says client '"zerocopy_sent":[1-9][0-9]*,"zerocopy_copied":0'
	# The host at the other end was told, and takes more than -B in a call.
	bytes_per_call server | { read -r bytes && [ "$bytes" -gt 16384 ]; }
}

bytes_per_call() {
	sed -n 's/.*"counts":{"rx_bytes":\([0-9]*\),"tx_bytes":0,"rx_calls":\([0-9]*\).*/\1 \2/p' "/tmp/$1.json" |
		awk '{ printf "%d\n", $1 / $2 }'
}

test_udmabuf_to_udmabuf() {
	tx_possible
	lab_up
	between "--mem udmabuf --mem-size 8M --path devmem" "-H $far4 --mem udmabuf --mem-size 8M --path devmem"
	at_least $payload far rx_devmem_bytes
}

test_eight_flows_over_several_queues() {
	lab_up
	between "--mem udmabuf --mem-size 8M --path devmem --queues 2-3" "-H $far4 -F 8 -B 64K"
	at_least 50000 far q2_rx_devmem_bytes
	at_least 50000 far q3_rx_devmem_bytes
}

test_the_server_sends() {
	tx_possible
	lab_up
	between "--mem udmabuf --mem-size 8M --path devmem" "-H $far4 -M --mem udmabuf --mem-size 8M --path devmem"
	at_least $payload near rx_devmem_bytes
}

test_jumbo_frames_over_ipv6() {
	lab_up
	mtu 9000
	between "--mem udmabuf --mem-size 8M --path devmem" "-6 -H $far6 -B 256K"
	at_least $payload far rx_devmem_bytes
}

test_gathered_into_one_piece() {
	lab_up
	between "--mem udmabuf --mem-size 8M --path devmem --rx-copy" "-H $far4 -B 128K"
	at_least $payload far rx_devmem_bytes
}

test_with_loss_every_byte_is_right() {
	lab_up
	fault drop_every 200
	between "--mem udmabuf --mem-size 8M --path devmem" "-H $far4"
	at_least 1 far rx_wire_drop
	at_least 100000 far rx_devmem_bytes
}

test_hardware_gro_where_the_nic_has_it() {
	lab_up
	between "--mem udmabuf --mem-size 8M --path devmem" "-H $far4"
	at_least 100 far rx_merged
}

test_without_hardware_gro() {
	lab_up no_gro_hw=1
	between "--mem udmabuf --mem-size 8M --path devmem" "-H $far4"
	at_least $payload far rx_devmem_bytes
	equals 0 far rx_merged
}

test_auto_takes_the_nics_own_path() {
	lab_up
	between "--mem udmabuf --mem-size 8M" "-H $far4"
	at_least $payload far rx_devmem_bytes
	says server '"rx_path":"devmem"'
}

test_auto_sends_staged_where_the_kernel_cannot() {
	kernel_at_least 6.16 && skip "this kernel can send from device memory"
	lab_up
	between "" "-H $far4 --mem udmabuf --mem-size 8M"
	says client '"tx_path":"staged"'
	says client '"tx_reason":"[^"]*this kernel cannot send from device memory"'
}

test_staged_leaves_the_nic_alone() {
	lab_up
	nics >/tmp/nics.before
	between "--mem udmabuf --mem-size 8M --path staged" "-H $far4"
	equals 0 far rx_devmem_bytes
	unchanged
}

test_payload_that_split_missed_is_named() {
	kernel_at_least 6.16 || skip "this kernel mixes such packets and ends the connection"
	lab_up
	fault linear_bytes 100
	between "--mem udmabuf --mem-size 8M --path devmem" "-H $far4"
	says server '"text":"[^"]* % of flow 0 landed in the server.s host memory: header split left it'
	says server '"rx_path":"mixed"'
}

test_the_nic_is_put_back() {
	lab_up
	nics >/tmp/nics.before
	between "--mem udmabuf --mem-size 8M --path devmem" "-H $far4 -F 3"
	unchanged
}

test_the_nic_is_put_back_after_kill_9() {
	lab_up
	begin
	for victim in server client; do
		serve stream --mem udmabuf --mem-size 8M --path devmem
		weir stream -c -H "$far4" -l 20 >/dev/null 2>&1 &
		client=$!
		usleep 1500000
		if [ $victim = server ]; then
			# shellcheck disable=SC2016 # for the far shell
			kill -9 "$(far sh -c 'for p in /proc/[0-9]*; do tr "\0" " " <$p/cmdline; echo " ${p#/proc/}"; done' 2>/dev/null |
				sed -n 's/^weir stream --mem udmabuf --mem-size 8M.* \([0-9]*\)$/\1/p' | head -n 1)"
		else
			kill -9 $client
		fi
		wait $client || true
		wait "$server" || true
		as_before
	done
}

test_a_second_run_on_the_nic_is_refused_with_the_owner() {
	lab_up
	begin
	serve stream --mem udmabuf --mem-size 8M --path devmem
	weir stream -c -H "$far4" -l 4 >/dev/null 2>&1 &
	client=$!
	usleep 1500000
	far weir stream --once --mem udmabuf --mem-size 8M --path devmem -C 13866 -P 13867 >/tmp/second 2>&1 &
	usleep 500000
	! weir stream -c -H "$far4" -C 13866 -P 13867 -l 1 >/tmp/refused 2>&1
	grep -q "weir stream" /tmp/refused
	wait $client || [ $? -eq 3 ] # an emulated CPU has no steady rate
	wait "$server" || true
	kill "$(server_pid)" # the second one
	as_before
}
