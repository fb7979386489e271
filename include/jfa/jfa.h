/* Jagged flash attention: the plain C interface, as libjfa.so exports it. It does what jfa/attention.h does;
 * shapes, strides and the meaning of every argument are described there.
 *
 * Calls return JFA_OK or the kind of error; jfa_last_error_message() has the words. A call that fails writes
 * nothing to its results. Null pointers are refused with JFA_INVALID_ARGUMENT unless a comment allows them.
 * All calls may be made from any thread.
 *
 * Addresses are device addresses, of any origin: "cuda:N" works in the primary context of device N, which is
 * the one that the CUDA runtime, PyTorch and others use, so memory and streams of theirs can be given as they
 * are.
 *
 * A structure filled with zeros has every default; reserved fields must be 0. Set the first field of jfa_call
 * and jfa_configuration to their size; jfa_call_init() and jfa_configuration_init() do both. Later versions
 * may add fields at the end of these two: what a smaller struct_bytes leaves out has its default, and what a
 * larger one adds must be 0 or is refused with JFA_INVALID_ARGUMENT. So a program and a library of different
 * ages go together as long as the program asks for nothing that the library does not know. */
#ifndef JFA_JFA_H
#define JFA_JFA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "jfa/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

/* What went wrong, by who can mend it. */
typedef int32_t jfa_error;
enum {
  JFA_OK = 0,
  JFA_INVALID_ARGUMENT = 1, /* the caller; the message names the argument and its value */
  JFA_UNSUPPORTED = 2,      /* a right request that this library or device does not serve */
  JFA_UNAVAILABLE = 3,      /* something outside is missing: NVRTC, libcuda, a device, a file, memory */
  JFA_COMPILE = 4,          /* NVRTC or ptxas refused a source; the detail has the log and the source */
  JFA_DEVICE = 5,           /* the driver or a kernel failed */
  JFA_INTERNAL = 6          /* a defect in this library */
};

/* "invalid argument" for JFA_INVALID_ARGUMENT, and so on; never null. */
const char* jfa_error_name(jfa_error error);

/* One line about the last call that failed on this thread; "" if none did. Valid until the thread's next
 * failure. */
const char* jfa_last_error_message(void);

/* What there is beyond that line, of many lines and often "": a compiler's log, a simulator's report. */
const char* jfa_last_error_detail(void);

/* "0.1.0": of the library that is loaded, where JFA_VERSION_STRING is of this header. */
const char* jfa_version(void);

/* The git commit that the library was built from: "4f6269a0ba1c"; with "-dirty" behind it if files had been
 * changed since; "unknown" if it was not built from a git repository. */
const char* jfa_commit(void);

/* ---- Devices and memory ---- */

typedef struct jfa_device jfa_device;

/* A CUstream or cudaStream_t; null is the device's default stream. */
typedef void* jfa_stream;

/* name: "cuda:0", or a simulated GPU such as "sim:sm_100a" or "sim:sm_100a?sms=4". */
jfa_error jfa_device_open(const char* name, jfa_device** device);

/* Ends the use of this handle; null is allowed. The GPU, its memory and its loaded kernels stay. */
void jfa_device_close(jfa_device* device);

/* The name given to jfa_device_open(), and the target that kernels are built for, e.g. "sm_90a", of a
 * simulated GPU "compute_90a". Both are valid until jfa_device_close(); null for a null device. */
const char* jfa_device_name(const jfa_device* device);
const char* jfa_device_target(const jfa_device* device);

/* 1 for a simulated device, else 0. */
int32_t jfa_device_simulated(const jfa_device* device);

/* Has calls without a tuning take the one that a database, a directory or an exported file, has for calls of
 * nearly their size; in place of the environment's JFA_TUNING_DB. JFA_UNAVAILABLE: it cannot be read.
 * JFA_INVALID_ARGUMENT: the device has loaded kernels already. */
jfa_error jfa_device_use_tuning_database(jfa_device* device, const char* path);

/* 256-byte aligned device memory, for those who have no other source of it. */
jfa_error jfa_allocate(jfa_device* device, uint64_t bytes, uint64_t* address);
jfa_error jfa_free(jfa_device* device, uint64_t address); /* 0 is allowed */

/* These return when the copy is done. */
jfa_error jfa_upload(jfa_device* device, uint64_t destination, const void* source, uint64_t bytes);
jfa_error jfa_download(jfa_device* device, void* destination, uint64_t source, uint64_t bytes);
jfa_error jfa_fill(jfa_device* device, uint64_t destination, uint8_t byte, uint64_t bytes);

/* Waits for the stream's work and returns the first error it met; JFA_INVALID_ARGUMENT with name, index and
 * value if a jfa_forward() or jfa_backward() on the stream has found a bad offset since the last time that
 * was told. That call computed nothing. */
jfa_error jfa_synchronize(jfa_device* device, jfa_stream stream);

/* ---- What is computed ---- */

enum { JFA_BF16 = 0, JFA_FP16 = 1 };        /* of dtype */
enum { JFA_INT32 = 0, JFA_INT64 = 1 };      /* of an offset's type */
enum { JFA_FORWARD = 0, JFA_BACKWARD = 1 }; /* of pass */
/* Where the queries of a sequence stand beside its keys: query i at key i, or at key i + keys - queries. */
enum { JFA_TOP_LEFT = 0, JFA_BOTTOM_RIGHT = 1 }; /* of alignment */

/* [rows, heads, head_dim], innermost stride 1. address: 16-byte aligned. Strides: in elements, multiples
 * of 8. */
typedef struct jfa_tensor {
  uint64_t address;
  int64_t rows;
  int64_t heads;
  int64_t head_dim;
  int64_t row_stride;
  int64_t head_stride;
  int32_t dtype;
  int32_t reserved; /* 0 */
} jfa_tensor;

/* Where the sequences' rows begin, and behind them where the last one's end: batch + 1 device integers that
 * never decrease, from 0 up to the tensor's rows. Rows before the first offset and behind the last belong to
 * no sequence. */
typedef struct jfa_offsets {
  uint64_t address;
  int64_t count; /* batch + 1 */
  int32_t type;
  int32_t reserved; /* 0 */
} jfa_offsets;

/* One attention. A query row that sees no key and a key that no query sees take no part, whatever they hold.
 * NaN or Inf in a row that does may, through a window, reach results of its sequence and heads that do not
 * see it, less than 256 rows away from those that do; an output that is NaN for it is such a row of the
 * backward's. scale * query . key must be below 2^127 in magnitude. */
typedef struct jfa_call {
  uint64_t struct_bytes;    /* sizeof(jfa_call) */
  jfa_tensor query;         /* [total_q, Hq, D]; with broadcast_q the one shared sequence [q_len, Hq, D] */
  jfa_tensor key;           /* [total_kv, Hkv, D] */
  jfa_tensor value;         /* [total_kv, Hkv, D] */
  jfa_offsets query_offset; /* ignored with broadcast_q */
  jfa_offsets key_offset;
  jfa_offsets output_offset; /* read if has_output_offset: first output row of every sequence */
  int64_t window;            /* read if has_window: keeps the pairs with |i - j| <= window */
  double scale;              /* read if has_scale; default 1 / sqrt(D) */
  int32_t has_output_offset;
  int32_t has_window;
  int32_t has_scale;
  int32_t broadcast_q;   /* every sequence's keys are read by the same query rows */
  int32_t deterministic; /* the same bits on every run on one GPU model */
  int32_t reserved;      /* 0 */
  /* "name=value,name=value" of a kernel's knobs (docs/tuning.md), read during the call; "": the defaults.
   * null: what the device's tuning database has for such calls, or else the defaults. */
  const char* tuning;
  /* With has_window 0: keys that a query sees before the one that it stands at, and behind it; without has_…
   * all of that side. Causal: has_window_right and 0. */
  int64_t window_left;
  int64_t window_right;
  int32_t has_window_left;
  int32_t has_window_right;
  int32_t alignment; /* of any window; JFA_BOTTOM_RIGHT is not to be had with broadcast_q */
  int32_t reserved2; /* 0 */
} jfa_call;

/* Device memory that a call may scribble on. address: 256-byte aligned. */
typedef struct jfa_workspace {
  uint64_t address;
  uint64_t bytes;
} jfa_workspace;

/* The gradient that flows into the output: as a tensor, but with any strides, 0 and negative ones too, any
 * innermost stride, and any base that is a multiple of 2 bytes. */
typedef struct jfa_output_gradient {
  uint64_t address;
  int64_t rows;
  int64_t heads;
  int64_t head_dim;
  int64_t row_stride;
  int64_t head_stride;
  int64_t dim_stride; /* 1 in a tensor */
  int32_t dtype;
  int32_t reserved; /* 0 */
} jfa_output_gradient;

/* What a kernel is specialised for. */
typedef struct jfa_configuration {
  uint64_t struct_bytes; /* sizeof(jfa_configuration) */
  int64_t head_dim;
  int64_t window; /* read if has_window */
  int64_t groups; /* query heads per key/value head; 0 counts as 1 */
  const char*
      target; /* "sm_100f", "sm_90a", …; null: the default target. A device puts its own in its place */
  int32_t pass;
  int32_t dtype;
  int32_t has_window;
  int32_t broadcast_q;
  const char* tuning;  /* as of jfa_call; null: all that the database has for it, and the defaults */
  int64_t window_left; /* these as of jfa_call */
  int64_t window_right;
  int32_t has_window_left;
  int32_t has_window_right;
  int32_t alignment;
  int32_t reserved; /* 0 */
} jfa_configuration;

/* A tensor packed as [rows, heads, head_dim]. */
static inline jfa_tensor jfa_tensor_packed(uint64_t address, int64_t rows, int64_t heads, int64_t head_dim,
                                           int32_t dtype) {
  jfa_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.address = address;
  tensor.rows = rows;
  tensor.heads = heads;
  tensor.head_dim = head_dim;
  tensor.row_stride = heads * head_dim;
  tensor.head_stride = head_dim;
  tensor.dtype = dtype;
  return tensor;
}

/* All defaults: no window, scale 1 / sqrt(D), every sequence has queries of its own, output rows like query
 * rows. */
static inline void jfa_call_init(jfa_call* call) {
  memset(call, 0, sizeof *call);
  call->struct_bytes = sizeof *call;
}

/* All defaults: forward, bf16, no window, one query head per key head, the default target. head_dim is left
 * to set. */
static inline void jfa_configuration_init(jfa_configuration* configuration) {
  memset(configuration, 0, sizeof *configuration);
  configuration->struct_bytes = sizeof *configuration;
}

/* ---- Computing it ---- */

/* Enqueues the attention on `stream`.
 * output: [output rows, Hq, D], the query's dtype; output rows: total_q, or batch * q_len with broadcast_q.
 * Rows that no sequence owns stay untouched. lse: address of fp32 [Hq, output rows], natural logarithm; 0 if
 * not wanted. workspace: of jfa_workspace_bytes(); null: taken from the library's own stream-ordered pool.
 * Bad offsets are found on the device, where such a call computes nothing: jfa_synchronize() of the stream
 * tells it, or the next jfa_forward() or jfa_backward() on the stream, which then does nothing but return
 * JFA_INVALID_ARGUMENT with name, index and value of the first bad offset; both tell it once. A call that has
 * nothing to compute (no batch, rows or heads) does not look at its offsets. With the
 * environment's JFA_CHECK_OFFSETS=1 every call waits for its stream and tells its own. Of a call that is
 * captured into a graph only jfa_status() tells. */
jfa_error jfa_forward(jfa_device* device, const jfa_call* call, const jfa_tensor* output, uint64_t lse,
                      const jfa_workspace* workspace, jfa_stream stream);

/* Bytes of workspace that jfa_forward() needs. */
jfa_error jfa_workspace_bytes(const jfa_call* call, uint64_t* bytes);

/* Enqueues the gradients of the attention on `stream`; the same bits on every run. Probabilities are made of
 * the LSE: their relative error, beside roundings to 16 bits, is at most e^x - 1 with
 * x = 5 * 2^-24 * max(|score|, |LSE|), and beyond |LSE| = 1.2e7 all that holds is that none passes 1.
 * output, lse: what jfa_forward() gave for the same call. output_grad: [output rows, Hq, D].
 * lse_grad: address of fp32 [Hq, output rows], or 0 if the LSE has no gradient.
 * query_grad, key_grad, value_grad: like query, key and value; every row is written. With broadcast_q,
 * query_grad is the sum over the batch. workspace: of jfa_backward_workspace_bytes(); null: taken from the
 * library's own stream-ordered pool. */
jfa_error jfa_backward(jfa_device* device, const jfa_call* call, const jfa_tensor* output, uint64_t lse,
                       const jfa_output_gradient* output_grad, uint64_t lse_grad,
                       const jfa_tensor* query_grad, const jfa_tensor* key_grad, const jfa_tensor* value_grad,
                       const jfa_workspace* workspace, jfa_stream stream);

/* Bytes of workspace that jfa_backward() needs for `call` and an output gradient of that shape and layout. */
jfa_error jfa_backward_workspace_bytes(const jfa_call* call, const jfa_output_gradient* output_grad,
                                       uint64_t* bytes);

/* Waits for `stream`, then tells what the last call found that was given this workspace: JFA_INVALID_ARGUMENT
 * with name, index and value of a bad offset (nothing was computed then), which jfa_synchronize() and the
 * next call then do not tell again; JFA_DEVICE if a kernel failed. */
jfa_error jfa_status(jfa_device* device, const jfa_workspace* workspace, jfa_stream stream);

/* ---- What there is to compute with ---- */

/* JFA_OK if a kernel exists for the configuration; the error names the field and its value. */
jfa_error jfa_supported(const jfa_configuration* configuration);

/* Writes the supported values of head_dim, ascending, to head_dims[0 … capacity - 1], and how many there are
 * to *count, which may be more. head_dims may be null if capacity is 0. */
jfa_error jfa_supported_head_dims(int64_t* head_dims, size_t capacity, size_t* count);

/* Compiles and loads a kernel ahead of its first call; calls inside a stream capture depend on it. */
jfa_error jfa_prepare(jfa_device* device, const jfa_configuration* configuration);

/* ---- What the library says and counts ---- */

/* By itself the library writes nothing, neither to stderr nor elsewhere. Who listens at a level hears those
 * above it too. */
enum {
  JFA_LOG_WARNING = 1, /* less is served than was asked for: a cache directory that cannot be written */
  JFA_LOG_NOTICE = 2,  /* why a call takes long: a compilation of over a second */
  JFA_LOG_INFO = 3,    /* a record of every compilation, cache hit and miss, device and loaded kernel */
  JFA_LOG_TRACE = 4    /* a record of every jfa_forward() and jfa_backward() */
};

/* message: one line without its end, valid until the callback returns. Warnings and notices are sentences;
 * records begin with "jfa_verbose,1," and have the fields that docs/runtime.md lists. May be called from any
 * thread, also from several at once, and must return: no exception, no longjmp. What the library would say
 * because of calls that the callback makes itself is dropped. */
typedef void (*jfa_log_callback)(int32_t level, const char* message, void* user);

/* Has `callback` told of everything up to `level`, or up to what the environment's JFA_VERBOSE asks for (1:
 * JFA_LOG_INFO, 2: JFA_LOG_TRACE), if that is more; then nothing goes to stderr. Takes the place of the
 * callback before, whose last call has returned when this returns, so that what its `user` points to may go.
 * A null callback ends it, and level and user are ignored: JFA_VERBOSE then writes to stderr, and without it
 * nothing is said. Warnings that nobody has heard yet (the first 16 of them) are told at once.
 * JFA_INVALID_ARGUMENT: not a level, or called within a callback. */
jfa_error jfa_set_log_callback(jfa_log_callback callback, void* user, int32_t level);

/* Counters of the process's kernel cache. Later versions may add fields at the end. */
typedef struct jfa_cache_stats {
  uint64_t struct_bytes; /* sizeof(jfa_cache_stats), set by the caller */
  uint64_t memory_hits;
  uint64_t directory_hits;
  uint64_t read_only_hits; /* from a read-only directory */
  uint64_t bundle_hits;
  uint64_t shared; /* calls that waited for the same kernel on another thread */
  uint64_t misses;
  uint64_t compiles;
  uint64_t compile_failures;
  uint64_t published; /* written to the directory */
  uint64_t published_bytes;
  uint64_t publish_failures;
  uint64_t lock_waits;    /* for another process */
  uint64_t lock_timeouts; /* ... that took too long, so this one compiled as well */
  uint64_t damaged;       /* entries found damaged, or refused by the driver, and not served */
  uint64_t evicted;
  uint64_t evicted_bytes;
  double compile_ms; /* sum */
} jfa_cache_stats;

/* Fills *stats: as many fields as struct_bytes says that the caller has. What the caller has beyond the
 * library's fields gets 0. JFA_INVALID_ARGUMENT: struct_bytes, or an environment variable with a value that
 * cannot be used, by name. */
jfa_error jfa_read_cache_stats(jfa_cache_stats* stats);

#ifdef __cplusplus
}
#endif

#endif /* JFA_JFA_H */
