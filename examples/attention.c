/* Jagged attention from C11, linked with libjfa.so alone: three sequences of unequal length, packed.
 * Usage: attention_c [device], "cuda:0" for a GPU. The default is a Blackwell simulated on the CPU. */
#include <jfa/jfa.h>
#include <stdio.h>
#include <stdlib.h>

enum { kQueries = 5, kKeys = 10, kHeads = 2, kHeadDim = 64, kRow = kHeads * kHeadDim };

/* Ends the program with the library's words unless a call worked. */
static void check(jfa_error error) {
  if (error == JFA_OK) return;
  fprintf(stderr, "attention_c: %s: %s\n%s\n", jfa_error_name(error), jfa_last_error_message(),
          jfa_last_error_detail());
  exit(EXIT_FAILURE);
}

static uint64_t to_device(jfa_device* device, const void* data, uint64_t bytes) {
  uint64_t address = 0;
  check(jfa_allocate(device, bytes, &address));
  check(jfa_upload(device, address, data, bytes));
  return address;
}

/* The upper half of a float; exact for the small whole numbers here. */
static uint16_t to_bf16(float value) {
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

int main(int argc, char** argv) {
  jfa_device* device = NULL;
  check(jfa_device_open(argc > 1 ? argv[1] : "sim:sm_100a", &device));
  printf("jfa %s on %s\n", jfa_version(), jfa_device_name(device));

  /* Sequence b owns rows [offset[b], offset[b + 1]): queries 2, 0, 3 and keys 4, 5, 1. */
  const int32_t query_offset[] = {0, 2, 2, 5}, key_offset[] = {0, 4, 9, 10};
  /* With queries of zero every key weighs the same, so each output is the mean of its sequence's values. */
  static uint16_t query[kQueries * kRow], key[kKeys * kRow], value[kKeys * kRow];
  for (int i = 0; i < kKeys * kRow; ++i) value[i] = to_bf16((float)(i / kRow));

  jfa_call call;
  jfa_call_init(&call);
  call.query =
      jfa_tensor_packed(to_device(device, query, sizeof query), kQueries, kHeads, kHeadDim, JFA_BF16);
  call.key = jfa_tensor_packed(to_device(device, key, sizeof key), kKeys, kHeads, kHeadDim, JFA_BF16);
  call.value = jfa_tensor_packed(to_device(device, value, sizeof value), kKeys, kHeads, kHeadDim, JFA_BF16);
  call.query_offset.address = to_device(device, query_offset, sizeof query_offset);
  call.query_offset.count = 4;
  call.query_offset.type = JFA_INT32;
  call.key_offset = call.query_offset;
  call.key_offset.address = to_device(device, key_offset, sizeof key_offset);

  jfa_tensor output = call.query; /* the same shape and strides */
  check(jfa_allocate(device, sizeof query, &output.address));
  check(jfa_forward(device, &call, &output, /*lse=*/0, /*workspace=*/NULL, /*stream=*/NULL));
  check(jfa_synchronize(device, NULL)); /* waits, and tells of bad offsets */

  static uint16_t result[kQueries * kRow];
  check(jfa_download(device, result, output.address, sizeof result));
  for (int row = 0; row < kQueries; ++row)
    printf("output row %d: %g\n", row, (double)from_bf16(result[row * kRow]));

  const uint64_t addresses[] = {call.query.address,        call.key.address,        call.value.address,
                                call.query_offset.address, call.key_offset.address, output.address};
  for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; ++i) check(jfa_free(device, addresses[i]));
  jfa_device_close(device);
  return EXIT_SUCCESS;
}
