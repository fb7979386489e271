/* The C interface as a C program sees it: what is computed on a simulated GPU, and what errors look like. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jfa/jfa.h"

static int failures = 0;

static void check(int holds, const char* what, int line) {
  if (holds) return;
  fprintf(stderr, "c_api_test.c:%d: %s\n  last error: %s\n", line, what, jfa_last_error_message());
  ++failures;
}
#define CHECK(condition) check((condition) != 0, #condition, __LINE__)

/* The call fails with `error`, and its message contains `part`. */
#define CHECK_ERROR(call, error, part)                       \
  do {                                                       \
    CHECK((call) == (error));                                \
    CHECK(strstr(jfa_last_error_message(), (part)) != NULL); \
  } while (0)

enum { kHeads = 2, kHeadDim = 16, kRowElements = kHeads * kHeadDim, kBatch = 2, kQueries = 7, kKeys = 12 };
/* Sequence 0: 3 queries and 4 keys; sequence 1: 4 queries and 8 keys. */
static const int32_t kQueryOffset[kBatch + 1] = {0, 3, 7};
static const int64_t kKeyOffset[kBatch + 1] = {0, 4, 12};

static uint16_t to_bf16(float value) { /* exact values only */
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static float from_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static uint64_t upload(jfa_device* device, const void* data, uint64_t bytes) {
  uint64_t address = 0;
  CHECK(jfa_allocate(device, bytes, &address) == JFA_OK);
  CHECK(address % 256 == 0);
  CHECK(jfa_upload(device, address, data, bytes) == JFA_OK);
  return address;
}

/* A tensor whose row r holds row_value(r) everywhere. */
static jfa_tensor make_tensor(jfa_device* device, int64_t rows, float (*row_value)(int64_t)) {
  uint16_t data[kKeys * kRowElements];
  int64_t row;
  int64_t column;
  for (row = 0; row < rows; ++row)
    for (column = 0; column < kRowElements; ++column)
      data[row * kRowElements + column] = to_bf16(row_value(row));
  return jfa_tensor_packed(upload(device, data, (uint64_t)rows * kRowElements * 2), rows, kHeads, kHeadDim,
                           JFA_BF16);
}

static float zero(int64_t row) { return 0.0F * (float)row; }
static float one(int64_t row) { return 1.0F + zero(row); }
static float row_number(int64_t row) { return (float)row; }
static float poison(int64_t row) { return -77.0F + zero(row); }

/* Every element of row r is expected[r]. */
static void check_rows(jfa_device* device, const jfa_tensor* tensor, const float* expected, int line) {
  uint16_t data[kKeys * kRowElements];
  int64_t i;
  CHECK(jfa_download(device, data, tensor->address, (uint64_t)tensor->rows * kRowElements * 2) == JFA_OK);
  for (i = 0; i < tensor->rows * kRowElements; ++i) {
    const float value = from_bf16(data[i]);
    if (value == expected[i / kRowElements]) continue;
    fprintf(stderr, "c_api_test.c:%d: element %ld is %g, not %g\n", line, (long)i, (double)value,
            (double)expected[i / kRowElements]);
    ++failures;
    return;
  }
}
#define CHECK_ROWS(tensor, expected) check_rows(device, &(tensor), (expected), __LINE__)

static jfa_call make_call(jfa_device* device) {
  jfa_call call;
  jfa_call_init(&call);
  call.query = make_tensor(device, kQueries, zero); /* every query sees its keys alike */
  call.key = make_tensor(device, kKeys, zero);
  call.value = make_tensor(device, kKeys, row_number);
  call.query_offset.address = upload(device, kQueryOffset, sizeof kQueryOffset);
  call.query_offset.count = kBatch + 1;
  call.query_offset.type = JFA_INT32;
  call.key_offset.address = upload(device, kKeyOffset, sizeof kKeyOffset);
  call.key_offset.count = kBatch + 1;
  call.key_offset.type = JFA_INT64;
  return call;
}

static void test_forward_and_backward(jfa_device* device) {
  const jfa_call call = make_call(device);
  const jfa_tensor output = make_tensor(device, kQueries, poison);
  const float mean[kQueries] = {1.5F, 1.5F, 1.5F, 7.5F, 7.5F, 7.5F, 7.5F}; /* of the values each query sees */
  float lse[kHeads * kQueries];
  uint64_t lse_address = 0;
  jfa_workspace workspace = {0, 0};
  int i;
  CHECK(jfa_allocate(device, sizeof lse, &lse_address) == JFA_OK);
  CHECK(jfa_workspace_bytes(&call, &workspace.bytes) == JFA_OK);
  CHECK(workspace.bytes > 0);
  CHECK(jfa_allocate(device, workspace.bytes, &workspace.address) == JFA_OK);

  CHECK(jfa_forward(device, &call, &output, lse_address, &workspace, NULL) == JFA_OK);
  CHECK(jfa_status(device, &workspace, NULL) == JFA_OK);
  CHECK_ROWS(output, mean);
  CHECK(jfa_download(device, lse, lse_address, sizeof lse) == JFA_OK);
  for (i = 0; i < kHeads * kQueries; ++i)
    CHECK(fabs((double)lse[i] - log(i % kQueries < 3 ? 4.0 : 8.0)) < 1e-5);

  /* The library's own pool, and a window of 0: query i sees key i. */
  {
    jfa_call diagonal = call;
    const float own_value[kQueries] = {0, 1, 2, 4, 5, 6, 7};
    diagonal.has_window = 1;
    diagonal.window = 0;
    CHECK(jfa_forward(device, &diagonal, &output, 0, NULL, NULL) == JFA_OK);
    CHECK(jfa_synchronize(device, NULL) == JFA_OK);
    CHECK_ROWS(output, own_value);
    /* Query i sees the keys up to i, of which there are more than queries. */
    {
      jfa_call causal = call;
      const float mean_to_own[kQueries] = {0, 0.5F, 1, 4, 4.5F, 5, 5.5F};
      const float mean_to_last[kQueries] = {0.5F, 1, 1.5F, 6, 6.5F, 7, 7.5F};
      causal.has_window_right = 1;
      CHECK(jfa_forward(device, &causal, &output, 0, NULL, NULL) == JFA_OK);
      CHECK(jfa_synchronize(device, NULL) == JFA_OK);
      CHECK_ROWS(output, mean_to_own);
      causal.alignment = JFA_BOTTOM_RIGHT;
      CHECK(jfa_forward(device, &causal, &output, 0, NULL, NULL) == JFA_OK);
      CHECK(jfa_synchronize(device, NULL) == JFA_OK);
      CHECK_ROWS(output, mean_to_last);
      causal.alignment = 2;
      CHECK_ERROR(jfa_forward(device, &causal, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT,
                  "alignment is 2");
      causal.alignment = JFA_TOP_LEFT;
      causal.has_window = 1;
      CHECK_ERROR(jfa_forward(device, &causal, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT,
                  "window is 0, and window_right 0");
    }
    {
      jfa_configuration shared;
      jfa_configuration_init(&shared);
      shared.head_dim = kHeadDim;
      shared.broadcast_q = 1;
      shared.has_window_left = 1;
      shared.window_left = 5;
      CHECK(jfa_supported(&shared) == JFA_OK);
      shared.alignment = JFA_BOTTOM_RIGHT;
      CHECK_ERROR(jfa_supported(&shared), JFA_UNSUPPORTED, "window '5:all:bottom_right'");
    }
    CHECK(jfa_forward(device, &call, &output, lse_address, &workspace, NULL) == JFA_OK);
  }

  /* Gradients, for an output gradient of ones given as one element with strides of 0. */
  {
    const jfa_tensor ones = make_tensor(device, 1, one);
    const jfa_tensor query_grad = make_tensor(device, kQueries, poison);
    const jfa_tensor key_grad = make_tensor(device, kKeys, poison);
    const jfa_tensor value_grad = make_tensor(device, kKeys, poison);
    const float zeros[kKeys] = {0};
    const float probability_sums[kKeys] = {0.75F, 0.75F, 0.75F, 0.75F, 0.5F, 0.5F,
                                           0.5F,  0.5F,  0.5F,  0.5F,  0.5F, 0.5F};
    jfa_output_gradient gradient;
    jfa_workspace scratch = {0, 0};
    memset(&gradient, 0, sizeof gradient);
    gradient.address = ones.address;
    gradient.rows = kQueries;
    gradient.heads = kHeads;
    gradient.head_dim = kHeadDim;
    CHECK(jfa_backward_workspace_bytes(&call, &gradient, &scratch.bytes) == JFA_OK);
    CHECK(jfa_allocate(device, scratch.bytes, &scratch.address) == JFA_OK);
    CHECK(jfa_backward(device, &call, &output, lse_address, &gradient, 0, &query_grad, &key_grad, &value_grad,
                       &scratch, NULL) == JFA_OK);
    CHECK(jfa_status(device, &scratch, NULL) == JFA_OK);
    CHECK_ROWS(query_grad, zeros);
    CHECK_ROWS(key_grad, zeros);
    CHECK_ROWS(value_grad, probability_sums);
    gradient.dtype = 2;
    CHECK_ERROR(jfa_backward_workspace_bytes(&call, &gradient, &scratch.bytes), JFA_INVALID_ARGUMENT,
                "output_grad.dtype is 2");
    CHECK_ERROR(jfa_backward(device, &call, &output, lse_address, NULL, 0, &query_grad, &key_grad,
                             &value_grad, &scratch, NULL),
                JFA_INVALID_ARGUMENT, "output_grad is null");
    CHECK(jfa_free(device, scratch.address) == JFA_OK);
  }
  CHECK(jfa_free(device, workspace.address) == JFA_OK);
}

static void test_bad_calls(jfa_device* device) {
  const jfa_call good = make_call(device);
  const jfa_tensor output = make_tensor(device, kQueries, poison);
  const float untouched[kQueries] = {-77, -77, -77, -77, -77, -77, -77};
  uint64_t bytes = 4711;
  jfa_workspace workspace = {0, 0};
  jfa_call call = good;

  call.query.heads = 3; /* not a multiple of the key's 2 */
  CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT, "query.heads");
  CHECK_ERROR(jfa_workspace_bytes(&call, &bytes), JFA_INVALID_ARGUMENT, "query.heads");
  CHECK(bytes == 4711);
  call = good;
  call.value.dtype = 9;
  CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT, "value.dtype is 9");
  call = good;
  call.key_offset.type = -1;
  CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT,
              "key_offset.type is -1");
  call = good;
  call.has_scale = 1;
  call.scale = HUGE_VAL;
  CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT, "scale");
  call = good;
  call.struct_bytes = 0;
  CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT, "struct_bytes is 0");
  call = good;
  call.struct_bytes = 280;
  CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT,
              "jfa_call.struct_bytes is 280: its first version has 288 bytes");
  call.struct_bytes = (uint64_t)1 << 40;
  CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT,
              "jfa_call.struct_bytes is 1099511627776");
  CHECK_ERROR(jfa_forward(NULL, &good, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT, "device is null");
  CHECK_ERROR(jfa_forward(device, NULL, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT, "call is null");
  CHECK_ERROR(jfa_forward(device, &good, NULL, 0, NULL, NULL), JFA_INVALID_ARGUMENT, "output is null");

  /* Offsets are looked at on the device. */
  call = good;
  {
    const int64_t decreasing[kBatch + 1] = {0, 5, 4};
    call.key_offset.address = upload(device, decreasing, sizeof decreasing);
  }
  CHECK(jfa_workspace_bytes(&call, &workspace.bytes) == JFA_OK);
  CHECK(jfa_allocate(device, workspace.bytes, &workspace.address) == JFA_OK);
  CHECK(jfa_forward(device, &call, &output, 0, &workspace, NULL) == JFA_OK);
  CHECK_ERROR(jfa_status(device, &workspace, NULL), JFA_INVALID_ARGUMENT, "key_offset[2] is 4");
  CHECK_ERROR(jfa_status(device, NULL, NULL), JFA_INVALID_ARGUMENT, "workspace is null");
  CHECK(jfa_synchronize(device, NULL) == JFA_OK); /* told already */
  /* Without a workspace of the caller's: waiting tells it, or the next call does. */
  CHECK(jfa_forward(device, &call, &output, 0, NULL, NULL) == JFA_OK);
  CHECK_ERROR(jfa_synchronize(device, NULL), JFA_INVALID_ARGUMENT, "key_offset[2] is 4");
  CHECK(jfa_synchronize(device, NULL) == JFA_OK);
  CHECK(jfa_forward(device, &call, &output, 0, NULL, NULL) == JFA_OK);
  CHECK_ERROR(jfa_forward(device, &good, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT, "key_offset[2] is 4");
  CHECK(jfa_synchronize(device, NULL) == JFA_OK);
  CHECK_ROWS(output, untouched);
  workspace.bytes = 16;
  CHECK_ERROR(jfa_forward(device, &good, &output, 0, &workspace, NULL), JFA_INVALID_ARGUMENT, "16");
}

/* A program that was compiled with a later header, whose structures have more fields. */
static void test_later_versions(jfa_device* device) {
  struct {
    jfa_call call;
    int64_t unknown[2];
  } later;
  struct {
    jfa_configuration configuration;
    int64_t unknown;
  } configuration;
  const jfa_tensor output = make_tensor(device, kQueries, poison);
  const float mean[kQueries] = {1.5F, 1.5F, 1.5F, 7.5F, 7.5F, 7.5F, 7.5F};
  const float untouched[kQueries] = {-77, -77, -77, -77, -77, -77, -77};
  uint64_t bytes = 0;
  memset(&later, 0, sizeof later);
  later.call = make_call(device);
  later.call.struct_bytes = sizeof later;
  later.unknown[1] = 0x500;
  CHECK_ERROR(
      jfa_forward(device, &later.call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT,
      "jfa_call.struct_bytes is 344: byte 337 is 0x5, of a field that this library, whose jfa_call has "
      "328 bytes, does not know");
  CHECK_ERROR(jfa_workspace_bytes(&later.call, &bytes), JFA_INVALID_ARGUMENT, "byte 337");
  CHECK_ROWS(output, untouched);
  later.unknown[1] = 0;
  CHECK(jfa_workspace_bytes(&later.call, &bytes) == JFA_OK);
  CHECK(jfa_forward(device, &later.call, &output, 0, NULL, NULL) == JFA_OK);
  CHECK(jfa_synchronize(device, NULL) == JFA_OK);
  CHECK_ROWS(output, mean);

  memset(&configuration, 0, sizeof configuration);
  configuration.configuration.struct_bytes = sizeof configuration;
  configuration.configuration.head_dim = kHeadDim;
  CHECK(jfa_supported(&configuration.configuration) == JFA_OK);
  configuration.unknown = 1;
  CHECK_ERROR(jfa_supported(&configuration.configuration), JFA_INVALID_ARGUMENT,
              "jfa_configuration.struct_bytes is 104: byte 96 is 0x1");
  configuration.configuration.struct_bytes = 48;
  CHECK_ERROR(jfa_supported(&configuration.configuration), JFA_INVALID_ARGUMENT,
              "jfa_configuration.struct_bytes is 48: its first version has 56 bytes");
}

static void test_tuning(jfa_device* device) {
  const jfa_tensor output = make_tensor(device, kQueries, poison);
  const float mean[kQueries] = {1.5F, 1.5F, 1.5F, 7.5F, 7.5F, 7.5F, 7.5F};
  jfa_call call = make_call(device);
  jfa_configuration configuration;
  jfa_configuration_init(&configuration);
  configuration.head_dim = kHeadDim;
  call.tuning = "tea";
  CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT,
              "'tea' is not name=value");
  call.tuning = "tea=1";
  CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT, "'tea' is no knob");
  configuration.tuning = "query_stages=9";
  CHECK_ERROR(jfa_supported(&configuration), JFA_INVALID_ARGUMENT, "query_stages=9 is not from 1 to 4");
  configuration.tuning = "query_stages=1";
  CHECK(jfa_prepare(device, &configuration) == JFA_OK);
  call.tuning = configuration.tuning;
  CHECK(jfa_forward(device, &call, &output, 0, NULL, NULL) == JFA_OK);
  CHECK(jfa_synchronize(device, NULL) == JFA_OK);
  CHECK_ROWS(output, mean);
  CHECK_ERROR(jfa_device_use_tuning_database(device, NULL), JFA_INVALID_ARGUMENT, "path is null");
  CHECK_ERROR(jfa_device_use_tuning_database(device, "no/database"), JFA_UNAVAILABLE,
              "no/database: cannot read");
}

static void test_reserved_fields(jfa_device* device) {
  const jfa_call good = make_call(device);
  const jfa_tensor output = make_tensor(device, kQueries, poison);
  jfa_output_gradient gradient;
  jfa_tensor spoilt = output;
  jfa_call call = good;
  uint64_t bytes = 0;
  const struct {
    int32_t* field;
    const char* message;
  } fields[] = {{&call.query.reserved, "query.reserved is 7: it must be 0"},
                {&call.key.reserved, "key.reserved is 7"},
                {&call.value.reserved, "value.reserved is 7"},
                {&call.query_offset.reserved, "query_offset.reserved is 7"},
                {&call.key_offset.reserved, "key_offset.reserved is 7"},
                {&call.reserved, "jfa_call.reserved is 7"}};
  size_t i;
  for (i = 0; i < sizeof fields / sizeof *fields; ++i) {
    *fields[i].field = 7;
    CHECK_ERROR(jfa_forward(device, &call, &output, 0, NULL, NULL), JFA_INVALID_ARGUMENT, fields[i].message);
    *fields[i].field = 0;
  }
  spoilt.reserved = -1;
  CHECK_ERROR(jfa_forward(device, &good, &spoilt, 0, NULL, NULL), JFA_INVALID_ARGUMENT,
              "output.reserved is -1");
  memset(&gradient, 0, sizeof gradient);
  gradient.reserved = 7;
  CHECK_ERROR(jfa_backward_workspace_bytes(&good, &gradient, &bytes), JFA_INVALID_ARGUMENT,
              "output_grad.reserved is 7");
  /* What is not read may hold anything. */
  call.output_offset.reserved = 7;
  CHECK(jfa_workspace_bytes(&call, &bytes) == JFA_OK);
}

static void test_configurations(jfa_device* device) {
  jfa_configuration configuration;
  int64_t head_dims[64];
  int64_t first = 0;
  size_t count = 0;
  size_t i;
  jfa_configuration_init(&configuration);
  configuration.head_dim = kHeadDim;
  CHECK(jfa_supported(&configuration) == JFA_OK);
  CHECK(jfa_prepare(device, &configuration) == JFA_OK);
  configuration.head_dim = 12;
  CHECK_ERROR(jfa_supported(&configuration), JFA_INVALID_ARGUMENT, "head_dim");
  CHECK_ERROR(jfa_prepare(device, &configuration), JFA_INVALID_ARGUMENT, "12");
  configuration.head_dim = kHeadDim;
  configuration.target = "sm_1";
  CHECK(jfa_supported(&configuration) != JFA_OK);
  CHECK(strstr(jfa_last_error_message(), "sm_1") != NULL);
  configuration.target = NULL;
  configuration.pass = 2;
  CHECK_ERROR(jfa_supported(&configuration), JFA_INVALID_ARGUMENT, "pass is 2");
  CHECK_ERROR(jfa_supported(NULL), JFA_INVALID_ARGUMENT, "configuration is null");

  CHECK(jfa_supported_head_dims(NULL, 0, &count) == JFA_OK);
  CHECK(count > 1 && count <= 64);
  CHECK(jfa_supported_head_dims(&first, 1, &count) == JFA_OK);
  CHECK(jfa_supported_head_dims(head_dims, 64, &count) == JFA_OK);
  CHECK(head_dims[0] == first);
  for (i = 1; i < count; ++i) CHECK(head_dims[i] > head_dims[i - 1]);
  CHECK(head_dims[count - 1] == 128);
  CHECK_ERROR(jfa_supported_head_dims(NULL, 3, &count), JFA_INVALID_ARGUMENT, "capacity is 3");
}

static void test_devices(jfa_device* device) {
  jfa_device* none = NULL;
  jfa_device* again = NULL;
  uint64_t address = 0;
  const uint8_t zeros[4] = {0, 0, 0, 0};
  uint8_t bytes[4] = {1, 2, 3, 4};
  CHECK(strcmp(jfa_device_name(device), "sim:sm_100a") == 0);
  CHECK(strcmp(jfa_device_target(device), "compute_100f") == 0);
  CHECK(jfa_device_simulated(device) == 1);
  CHECK(jfa_device_name(NULL) == NULL && jfa_device_target(NULL) == NULL);
  CHECK_ERROR(jfa_device_open("toaster:0", &none), JFA_INVALID_ARGUMENT, "toaster:0");
  CHECK(none == NULL);
  CHECK_ERROR(jfa_device_open(NULL, &none), JFA_INVALID_ARGUMENT, "name is null");
  CHECK_ERROR(jfa_device_open("sim:sm_100a", NULL), JFA_INVALID_ARGUMENT, "device is null");
  CHECK_ERROR(jfa_device_open("sim:\xff", &again), JFA_INVALID_ARGUMENT,
              "device 'sim:?'"); /* messages are UTF-8 */

  CHECK(jfa_device_open("sim:sm_100a", &again) == JFA_OK); /* memory is the device's, not the handle's */
  CHECK(jfa_allocate(again, 4, &address) == JFA_OK);
  jfa_device_close(again);
  CHECK(jfa_fill(device, address, 0, 4) == JFA_OK);
  CHECK(jfa_download(device, bytes, address, 4) == JFA_OK);
  CHECK(memcmp(bytes, zeros, 4) == 0);
  CHECK_ERROR(jfa_upload(device, address, NULL, 4), JFA_INVALID_ARGUMENT, "source is null");
  CHECK_ERROR(jfa_download(device, NULL, address, 4), JFA_INVALID_ARGUMENT, "destination is null");
  CHECK_ERROR(jfa_allocate(device, (uint64_t)1 << 60, &address), JFA_UNAVAILABLE, "allocating");
  CHECK(jfa_free(device, address) == JFA_OK);
  CHECK(jfa_free(device, 0) == JFA_OK);
  CHECK_ERROR(jfa_free(device, address), JFA_DEVICE, "freeing");
  jfa_device_close(NULL);
}

/* What a callback heard. */
typedef struct Heard {
  int messages;
  int calls; /* records of jfa_forward() */
  int32_t most;
  jfa_error replaced; /* what setting a callback within one returned */
} Heard;

static void hear(int32_t level, const char* message, void* user) {
  Heard* heard = user;
  ++heard->messages;
  if (level > heard->most) heard->most = level;
  if (strncmp(message, "jfa_verbose,1,exec,sim:sm_100a,forward,", 39) == 0) ++heard->calls;
  heard->replaced = jfa_set_log_callback(NULL, NULL, 0);
}

static void test_log(jfa_device* device) {
  const jfa_call call = make_call(device);
  const jfa_tensor output = make_tensor(device, kQueries, poison);
  Heard heard = {0, 0, 0, JFA_OK};
  CHECK_ERROR(jfa_set_log_callback(hear, &heard, 0), JFA_INVALID_ARGUMENT, "level is 0: not one of 1");
  CHECK_ERROR(jfa_set_log_callback(hear, &heard, 5), JFA_INVALID_ARGUMENT, "level is 5");
  CHECK(jfa_forward(device, &call, &output, 0, NULL, NULL) == JFA_OK);
  CHECK(heard.messages == 0);
  CHECK(jfa_set_log_callback(hear, &heard, JFA_LOG_TRACE) == JFA_OK);
  CHECK(jfa_forward(device, &call, &output, 0, NULL, NULL) == JFA_OK);
  CHECK(heard.calls == 1 && heard.most == JFA_LOG_TRACE);
  CHECK(heard.replaced == JFA_INVALID_ARGUMENT);
  CHECK(jfa_set_log_callback(hear, &heard, JFA_LOG_INFO) == JFA_OK);
  CHECK(jfa_forward(device, &call, &output, 0, NULL, NULL) == JFA_OK);
  CHECK(jfa_set_log_callback(NULL, NULL, 0) == JFA_OK);
  CHECK(jfa_forward(device, &call, &output, 0, NULL, NULL) == JFA_OK);
  CHECK(heard.calls == 1);
  CHECK(jfa_synchronize(device, NULL) == JFA_OK);
}

static void test_cache_stats(void) {
  struct {
    jfa_cache_stats stats;
    uint64_t unknown;
  } later;
  memset(&later, 0xff, sizeof later);
  later.stats.struct_bytes = sizeof later;
  CHECK(jfa_read_cache_stats(&later.stats) == JFA_OK);
  CHECK(later.stats.struct_bytes == sizeof later); /* the caller's */
  CHECK(later.unknown == 0);
  /* Kernels were loaded, from wherever they were. */
  CHECK(later.stats.memory_hits + later.stats.directory_hits + later.stats.compiles >= 3);
  CHECK(later.stats.compile_failures == 0 && later.stats.misses == later.stats.compiles);
  CHECK((later.stats.compile_ms > 0) == (later.stats.compiles > 0));
  CHECK((later.stats.published_bytes > 0) == (later.stats.published > 0));
  later.stats.struct_bytes = 136;
  CHECK_ERROR(jfa_read_cache_stats(&later.stats), JFA_INVALID_ARGUMENT,
              "jfa_cache_stats.struct_bytes is 136: its first version has 144 bytes");
  CHECK_ERROR(jfa_read_cache_stats(NULL), JFA_INVALID_ARGUMENT, "stats is null");
}

int main(void) {
  jfa_device* device = NULL;
  CHECK(jfa_last_error_message()[0] == '\0' && jfa_last_error_detail()[0] == '\0');
  CHECK(strcmp(jfa_version(), JFA_TEST_VERSION) == 0);
  CHECK(strcmp(JFA_VERSION_STRING, JFA_TEST_VERSION) == 0);
  CHECK(JFA_VERSION_NUMBER >= JFA_MAKE_VERSION(0, 1, 0));
  CHECK(JFA_VERSION_NUMBER < JFA_MAKE_VERSION(JFA_VERSION_MAJOR, JFA_VERSION_MINOR + 1, 0));
  CHECK(strcmp(jfa_commit(), "unknown") == 0 || strspn(jfa_commit(), "0123456789abcdef") == 12);
  CHECK(strcmp(jfa_error_name(JFA_INVALID_ARGUMENT), "invalid argument") == 0);
  CHECK(strcmp(jfa_error_name(JFA_INTERNAL), "internal") == 0);
  CHECK(strcmp(jfa_error_name(99), "unknown error") == 0);
  CHECK(jfa_device_open("sim:sm_100a", &device) == JFA_OK);
  if (!device) return EXIT_FAILURE;
  test_devices(device);
  test_configurations(device);
  test_forward_and_backward(device);
  test_bad_calls(device);
  test_later_versions(device);
  test_reserved_fields(device);
  test_tuning(device);
  test_log(device);
  test_cache_stats();
  jfa_device_close(device);
  if (failures == 0) puts("all checks passed");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
