// [big] Element counts beyond 2^31, on a GPU with 60 GB to spare: the last sequences of a large batch equal a
// call of their own, bit for bit. Built and registered with ctest when JFA_TEST_GPU is on.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "tests/attention/harness.h"

namespace {

using namespace jfa;

constexpr std::int64_t kElementBytes = 2;
constexpr std::int64_t kHeadDim = 128;

Device& device() { return test::test_device(); }

struct Shape {
  std::int64_t batch, query_length, key_length, heads;

  std::int64_t query_rows() const { return batch * query_length; }
  std::int64_t key_rows() const { return batch * key_length; }
  std::int64_t row_bytes() const { return heads * kHeadDim * kElementBytes; }
};

// Device memory that is given back.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : bytes_(bytes) {
    const Result<std::uint64_t> address = device().allocate(static_cast<std::uint64_t>(bytes));
    REQUIRE_MESSAGE(address.ok(), address.status().message());
    address_ = *address;
  }
  ~Memory() { (void)device().free(address_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::uint64_t address() const { return address_; }
  std::int64_t bytes() const { return bytes_; }

  void copy_from(std::uint64_t source, std::int64_t at, std::int64_t bytes) {
    const Device::Impl& impl = device().impl();
    const Status copied = impl.with_context("copying", [&] {
      return impl.driver.cuMemcpyDtoDAsync(address_ + static_cast<std::uint64_t>(at), source,
                                           static_cast<std::size_t>(bytes), nullptr);
    });
    REQUIRE_MESSAGE(copied.ok(), copied.message());
  }
  // Deviates, repeated with a period that no length here divides.
  void randomize(std::uint64_t seed) {
    test::Normal normal(seed);
    std::vector<std::uint16_t> block(static_cast<std::size_t>(std::min<std::int64_t>(bytes_ / 2, 1'000'003)));
    for (std::uint16_t& element : block) {
      const float value = static_cast<float>(normal());
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      element = static_cast<std::uint16_t>(bits >> 16);
    }
    std::int64_t filled = static_cast<std::int64_t>(block.size()) * kElementBytes;
    REQUIRE(device().upload(address_, block.data(), static_cast<std::uint64_t>(filled)).ok());
    for (; filled < bytes_; filled *= 2) copy_from(address_, filled, std::min(filled, bytes_ - filled));
  }
  std::vector<std::uint8_t> tail(std::int64_t bytes) const {
    std::vector<std::uint8_t> host(static_cast<std::size_t>(bytes));
    REQUIRE(device()
                .download(host.data(), address_ + static_cast<std::uint64_t>(bytes_ - bytes), host.size())
                .ok());
    return host;
  }

 private:
  std::uint64_t address_ = 0;
  std::int64_t bytes_;
};

// A forward and its backward.
struct Run {
  Shape shape;
  Memory query, key, value, output_grad, output, query_grad, key_grad, value_grad, lse, offsets;

  explicit Run(const Shape& shape)
      : shape(shape),
        query(shape.query_rows() * shape.row_bytes()),
        key(shape.key_rows() * shape.row_bytes()),
        value(key.bytes()),
        output_grad(query.bytes()),
        output(query.bytes()),
        query_grad(query.bytes()),
        key_grad(key.bytes()),
        value_grad(key.bytes()),
        lse(shape.heads * shape.query_rows() * 4),
        offsets(2 * (shape.batch + 1) * 8) {}

  void randomize() {
    query.randomize(1);
    key.randomize(2);
    value.randomize(3);
    output_grad.randomize(4);
  }
  // The inputs of the last sequences of another run.
  void copy_tail(const Run& from) {
    for (auto [to, source] : {std::pair{&query, &from.query},
                              {&key, &from.key},
                              {&value, &from.value},
                              {&output_grad, &from.output_grad}})
      to->copy_from(source->address() + static_cast<std::uint64_t>(source->bytes() - to->bytes()), 0,
                    to->bytes());
  }

  void run() {
    std::vector<std::int64_t> steps;
    for (const std::int64_t length : {shape.query_length, shape.key_length})
      for (std::int64_t b = 0; b <= shape.batch; ++b) steps.push_back(b * length);
    REQUIRE(device().upload(offsets.address(), steps.data(), steps.size() * 8).ok());
    const auto tensor = [&](const Memory& memory, std::int64_t rows) {
      return Tensor::packed(memory.address(), rows, shape.heads, kHeadDim, DType::bf16);
    };
    const std::int64_t query_rows = shape.query_rows(), key_rows = shape.key_rows();
    AttentionCall call;
    call.query = tensor(query, query_rows);
    call.key = tensor(key, key_rows);
    call.value = tensor(value, key_rows);
    call.query_offset = {offsets.address(), shape.batch + 1, OffsetType::int64};
    call.key_offset = {offsets.address() + static_cast<std::uint64_t>(shape.batch + 1) * 8, shape.batch + 1,
                       OffsetType::int64};
    const Tensor out = tensor(output, query_rows);
    const Status forwarded = forward(device(), call, out, lse.address());
    REQUIRE_MESSAGE(forwarded.ok(), forwarded.message());
    const Status done =
        backward(device(), call, out, lse.address(), OutputGradient::of(tensor(output_grad, query_rows)), 0,
                 tensor(query_grad, query_rows), tensor(key_grad, key_rows), tensor(value_grad, key_rows));
    REQUIRE_MESSAGE(done.ok(), done.message());
    const Status finished = device().synchronize();
    REQUIRE_MESSAGE(finished.ok(), finished.message());
  }
};

void check_last_sequences(const Shape& shape, std::int64_t last) {
  Run whole(shape);
  whole.randomize();
  whole.run();
  Run solo({last, shape.query_length, shape.key_length, shape.heads});
  solo.copy_tail(whole);
  solo.run();
  for (const auto& [name, of_whole, of_solo] : {std::tuple{"output", &whole.output, &solo.output},
                                                {"query_grad", &whole.query_grad, &solo.query_grad},
                                                {"key_grad", &whole.key_grad, &solo.key_grad},
                                                {"value_grad", &whole.value_grad, &solo.value_grad}}) {
    CAPTURE(name);
    const std::vector<std::uint8_t> expected = of_solo->tail(of_solo->bytes());
    CHECK(std::ranges::any_of(expected, [](std::uint8_t byte) { return byte != 0; }));
    CHECK(of_whole->tail(of_solo->bytes()) == expected);
  }
}

}  // namespace

TEST_CASE("bug-pool 51: 16384 sequences of 16, 16 heads of 128") {
  check_last_sequences({16384, 16, 16, 16}, 3);
}

TEST_CASE("bug-pool 52: more than 2^31 query elements, and one sequence less") {
  check_last_sequences({400, 10496, 128, 4}, 1);
  check_last_sequences({399, 10496, 128, 4}, 1);
}
