# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154,SC2034
#
# What takes long: for `make lab` alone, `make check` does without.

test_seconds=600

# kill -9 of either end, at thirty moments of a run.
test_killed_at_many_moments() {
	path=devmem
	kernel_at_least 6.16 || path=auto # the server sends
	lab_up
	begin
	for after in 0 50 100 150 200 250 300 350 400 500 600 700 800 1000 1500; do
		for victim in server client; do
			serve stream --mem udmabuf --mem-size 8M --path $path
			weir stream -c -M -H "$far4" -l 20 --mem udmabuf --mem-size 8M >/dev/null 2>&1 &
			client=$!
			usleep $((after * 1000))
			if [ $victim = server ]; then
				kill -9 "$(server_pid)"
				kill $client 2>/dev/null || true
			else
				kill -9 $client
				kill "$(server_pid)" 2>/dev/null || true
			fi
			wait $client || true
			wait "$server" || true
			as_before
		done
	done
}

# A client that is stopped for good: the server gives it up, says so, and puts its NIC back.
test_a_sender_that_never_comes_back() {
	lab_up
	begin
	serve stream --mem udmabuf --mem-size 8M --path devmem
	weir stream -c -H "$far4" -l 60 >/dev/null 2>&1 &
	client=$!
	usleep 2000000
	kill -STOP $client
	wait "$server" || true
	kill -9 $client
	grep -q 'the client has been silent for' /tmp/server
	as_before
}

# Ten runs leave no descriptor and no memory behind in a server that stays.
test_a_server_that_stays_leaks_nothing() {
	lab_up
	begin
	far weir stream --mem udmabuf --path devmem --mem-size 1M >/tmp/server 2>&1 &
	server=$!
	eventually listening
	pid=$(server_pid)
	for run in 1 2 3 4 5 6 7 8 9 10; do
		weir stream -c -H "$far4" -l 0.2 >/dev/null 2>&1 || true
		if [ "$run" = 2 ]; then
			unchanged # the session is over
			usleep 1000000
			before=$(descriptors "$pid")
			resident=$(resident_kib "$pid")
		fi
	done
	unchanged
	eventually descriptors_are "$pid" "$before"
	[ "$(resident_kib "$pid")" -lt $((resident + 2048)) ]
	kill "$pid"
	wait "$server" || true
	as_before
}
