// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/session.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

#define WINDOW_BYTES   (1 << 20)
#define TABLE_BYTES    4096
#define NUISANCE_MOST  800.0 /* nghttp2 itself ends it at 1000 resets, with another code */
#define NUISANCE_A_SEC 33.0

/* Frames that cost us work and serve nobody: resets, pings, settings, empty data. A bucket that empties
 * by 33 a second and holds 800: a client that cancels a hundred calls at once is fine, one that
 * opens and resets streams as fast as it can is told to calm down and sent away. */
static void conn_nuisance(struct rpc_conn *conn)
{
	uint64_t now_ns = clock_ns();

	conn->nuisance -= NUISANCE_A_SEC * (double)(now_ns - conn->nuisance_ns) / (double)NS_PER_S;
	conn->nuisance_ns = now_ns;
	if (conn->nuisance < 0)
		conn->nuisance = 0;
	conn->nuisance += 1;
	if (conn->nuisance <= NUISANCE_MOST || conn->misbehaved)
		return;
	conn->misbehaved = true;
	nghttp2_session_terminate_session(conn->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

bool rpc_header_is(const struct rpc_header *h, const char *name)
{
	return strlen(name) == h->name_length && !memcmp(h->name, name, h->name_length);
}

nghttp2_nv rpc_nv(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)name,
		.value = (uint8_t *)value,
		.namelen = strlen(name),
		.valuelen = strlen(value) };
}

void rpc_stream_bind(struct rpc_stream *stream, struct rpc_conn *conn, int32_t id,
	struct rpc_budget *out, size_t message_limit)
{
	stream->conn = conn;
	stream->id = id;
	stream->in.budget = &conn->in;
	stream->out.budget = out;
	stream->in.limit = message_limit;
	stream->next = conn->streams;
	stream->link = &conn->streams;
	if (stream->next)
		stream->next->link = &stream->next;
	conn->streams = stream;
}

void rpc_stream_unbind(struct rpc_stream *stream)
{
	struct rpc_conn *conn = stream->conn;

	if (!conn)
		return;
	*stream->link = stream->next;
	if (stream->next)
		stream->next->link = stream->link;
	stream->conn = NULL;
	rpc_frame_reset(&stream->in);
	rpc_frame_drop(&stream->out);
	nghttp2_session_set_stream_user_data(conn->session, stream->id, NULL);
	if (!conn->streams)
		conn->idle_ns = clock_ns();
}

void rpc_stream_reset(struct rpc_stream *stream, uint32_t h2_error)
{
	stream->deaf = true;
	rpc_frame_reset(&stream->in);
	rpc_frame_drop(&stream->out);
	nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE, stream->id, h2_error);
	rpc_conn_kick(stream->conn);
}

void rpc_stream_resume(struct rpc_stream *stream)
{
	if (stream->out_paused) {
		stream->out_paused = false;
		nghttp2_session_resume_data(stream->conn->session, stream->id);
	}
	rpc_conn_kick(stream->conn);
}

static ssize_t source_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
	uint32_t *flags, nghttp2_data_source *source, void *context)
{
	/* Looked up anew: the owner may have let go of the stream. */
	struct rpc_stream *stream = nghttp2_session_get_stream_user_data(session, id);
	struct rpc_conn *conn = context;
	size_t n;

	(void)source;
	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	n = rpc_frame_take(&stream->out, to, room);
	if (n)
		stream->moved_ns = clock_ns();
	if (!stream->out.bytes && stream->out_ended) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (conn->ops->trailers) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			conn->ops->trailers(stream);
		}
		return (ssize_t)n;
	}
	if (n)
		return (ssize_t)n;
	stream->out_paused = true;
	return NGHTTP2_ERR_DEFERRED;
}

nghttp2_data_provider rpc_stream_source(struct rpc_stream *stream)
{
	(void)stream;
	return (nghttp2_data_provider){ .read_callback = source_read };
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct rpc_conn *conn = context;
	struct rpc_stream *stream;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	stream = conn->ops->open(conn, frame->hd.stream_id);
	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *context)
{
	struct rpc_stream *stream =
		nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	struct rpc_header header = { (const char *)name, (const char *)value, name_length,
		value_length };
	struct rpc_conn *conn = context;

	(void)flags;
	if (!stream)
		return 0;
	/* As HTTP/2 counts them. */
	stream->header_bytes += name_length + value_length + 32;
	if (stream->header_bytes <= RPC_HEADER_BYTES)
		conn->ops->header(stream, &header);
	return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
	size_t length, void *context)
{
	struct rpc_conn *conn = context;

	(void)flags;
	while (length) {
		/* Looked up each time: the owner may let go of it in any callback. */
		struct rpc_stream *stream = nghttp2_session_get_stream_user_data(session, id);
		size_t used;
		int ret;

		if (!stream || stream->deaf)
			return 0;
		if (rpc_frame_at_boundary(&stream->in))
			stream->begun_ns = clock_ns();
		ret = rpc_frame_feed(&stream->in, data, length, &used);
		if (ret < 0) {
			stream->deaf = true;
			rpc_frame_reset(&stream->in);
			conn->ops->garbled(stream, ret);
			return 0;
		}
		if (ret == 1)
			conn->ops->message(stream);
		data += used;
		length -= used;
	}
	return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct rpc_stream *stream = frame->hd.stream_id ? nghttp2_session_get_stream_user_data(
								  session, frame->hd.stream_id)
							: NULL;
	struct rpc_conn *conn = context;
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		if (stream)
			conn->ops->headers(stream);
		break;
	case NGHTTP2_DATA:
		if (!frame->hd.length && !end)
			conn_nuisance(conn);
		break;
	case NGHTTP2_SETTINGS:
		if (conn->state == RPC_CONN_HANDSHAKE) {
			conn->state = RPC_CONN_OPEN;
			conn->was_open = true;
			loop_timer_set(
				conn->loop, &conn->watch, clock_ns() + NS_PER_MS, conn->watch.fire);
		}
		if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
			conn_nuisance(conn);
		break;
	case NGHTTP2_PING:
		if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
			conn_nuisance(conn);
		else if (conn->leaving && conn->is_server)
			nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE,
				nghttp2_session_get_last_proc_stream_id(session), NGHTTP2_NO_ERROR,
				NULL, 0);
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			conn->ping_ns = 0;
		break;
	case NGHTTP2_RST_STREAM:
	case NGHTTP2_PRIORITY:
		conn_nuisance(conn);
		break;
	case NGHTTP2_GOAWAY:
		if (conn->ops->goaway)
			conn->ops->goaway(conn, frame->goaway.error_code);
		break;
	default:
		break;
	}
	if (end && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS)) {
		/* The owner may have let go of it in headers(). */
		stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
		if (stream)
			conn->ops->end(stream);
	}
	return 0;
}

/* Frames that nghttp2 answers itself, by resetting the stream, cost as much as any. */
static int on_invalid_frame(
	nghttp2_session *session, const nghttp2_frame *frame, int error, void *context)
{
	(void)session;
	(void)frame;
	(void)error;
	conn_nuisance(context);
	return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct rpc_conn *conn = context;

	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		conn->misbehaved = true;
	/* A server that has said all before the client has: the client may stop. */
	if (conn->is_server && frame->hd.type == NGHTTP2_HEADERS &&
		frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
		!nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id))
		nghttp2_submit_rst_stream(
			session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *context)
{
	struct rpc_stream *stream = nghttp2_session_get_stream_user_data(session, id);
	struct rpc_conn *conn = context;

	if (!stream)
		return 0;
	rpc_stream_unbind(stream);
	conn->ops->closed(stream, error);
	return 0;
}

static nghttp2_session_callbacks *session_callbacks(void)
{
	nghttp2_session_callbacks *c;

	if (nghttp2_session_callbacks_new(&c))
		return NULL;
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(c, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data_chunk);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame_recv);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_send);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
	return c;
}

static int session_make(struct rpc_conn *conn)
{
	nghttp2_session_callbacks *callbacks = session_callbacks();
	nghttp2_option *option = NULL;
	int ret = -ENOMEM;

	if (!callbacks || nghttp2_option_new(&option))
		goto done;
	nghttp2_option_set_no_closed_streams(option, 1);
	nghttp2_option_set_max_reserved_remote_streams(option, 0);
	nghttp2_option_set_max_deflate_dynamic_table_size(option, TABLE_BYTES);
	ret = conn->is_server
		      ? nghttp2_session_server_new2(&conn->session, callbacks, conn, option)
		      : nghttp2_session_client_new2(&conn->session, callbacks, conn, option);
	ret = ret ? -ENOMEM : 0;
done:
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return ret;
}

int rpc_session_new(struct rpc_conn *conn, uint32_t streams)
{
	nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, conn->is_server ? streams : 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, RPC_HEADER_BYTES },
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 }, /* only a client says this */
	};
	int ret = session_make(conn);

	if (ret)
		return ret;
	ret = nghttp2_submit_settings(
		conn->session, NGHTTP2_FLAG_NONE, settings, conn->is_server ? 3 : 4);
	if (!ret)
		ret = nghttp2_session_set_local_window_size(
			conn->session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES);
	return ret ? -ENOMEM : 0;
}
