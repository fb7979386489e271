// Every rule of the contract that the host can check: the refusal names the argument and its value.
#include "runtime/validate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "runtime/c_structure.h"

namespace {

using namespace jfa;

AttentionCall good_call() {
  AttentionCall call;
  call.query = Tensor::packed(0x100000, 100, 6, 40, DType::fp16);
  call.key = Tensor::packed(0x200000, 200, 2, 40, DType::fp16);
  call.value = Tensor::packed(0x300000, 200, 2, 40, DType::fp16);
  call.query_offset = {0x400000, 4, OffsetType::int32};
  call.key_offset = {0x500000, 4, OffsetType::int64};
  return call;
}

Tensor good_output() { return Tensor::packed(0x600000, 100, 6, 40, DType::fp16); }

std::string refusal(const std::function<void(AttentionCall&)>& change) {
  AttentionCall call = good_call();
  change(call);
  const Result<ValidCall> valid = validate(call);
  return valid.ok() ? "accepted" : valid.status().message();
}

std::string output_refusal(const std::function<void(Tensor&)>& change, bool has_output_offset = false,
                           std::uint64_t lse = 0) {
  const Result<ValidCall> valid = validate(good_call());
  REQUIRE(valid.ok());
  Tensor output = good_output();
  change(output);
  AttentionCall call = good_call();
  if (has_output_offset) call.output_offset = Offsets{0x700000, 4, OffsetType::int32};
  const Result<Tensor> checked = validate_output(*valid, call, output, lse);
  return checked.ok() ? "accepted" : checked.status().message();
}

}  // namespace

TEST_CASE("what keeps the contract is accepted") {
  CHECK(refusal([](AttentionCall&) {}) == "accepted");
  CHECK(output_refusal([](Tensor&) {}) == "accepted");
  // Views: head-major, a fused QKV, one row for all.
  CHECK(refusal([](AttentionCall& c) { c.key.row_stride = 40, c.key.head_stride = 8000; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.query.row_stride = 6 * 40 * 3; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.key.row_stride = c.value.head_stride = 0; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.window = 0; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.scale = 0; }) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.scale = -3.5; }) == "accepted");
}

TEST_CASE("tensors") {
  CHECK(refusal([](AttentionCall& c) { c.key.dtype = DType::bf16; }) ==
        "key.dtype bf16 differs from query.dtype fp16");
  CHECK(refusal([](AttentionCall& c) { c.value.dtype = static_cast<DType>(7); }) ==
        "value.dtype 7 is neither bf16 nor fp16");
  CHECK(refusal([](AttentionCall& c) { c.value.head_dim = 48; }) ==
        "value.head_dim 48 differs from query.head_dim 40");
  CHECK(refusal([](AttentionCall& c) { c.query.rows = -1; }) == "query.rows -1 is negative");
  CHECK(refusal([](AttentionCall& c) { c.query.rows = std::int64_t{1} << 30; }) ==
        "query.rows 1073741824 is not below 2^30");
  CHECK(refusal([](AttentionCall& c) { c.key.heads = -2; }) == "key.heads -2 is negative");
  CHECK(refusal([](AttentionCall& c) { c.query.heads = 1 << 21; }) == "query.heads 2097152 is above 1048576");
  CHECK(refusal([](AttentionCall& c) { c.query.head_dim = 0; }) == "query.head_dim 0 is not positive");
  CHECK(refusal([](AttentionCall& c) { c.value.rows = 199; }) == "value.rows 199 differs from key.rows 200");
  CHECK(refusal([](AttentionCall& c) { c.query.address = 0; }) ==
        "query.address is null although it has 100 rows of 6 heads");
}

TEST_CASE("bug-pool 57: addresses that are not 16-byte aligned") {
  CHECK(refusal([](AttentionCall& c) { c.query.address += 2; }) ==
        "query.address 0x100002 is not a multiple of 16 bytes");
  CHECK(refusal([](AttentionCall& c) { c.value.address += 8; }) ==
        "value.address 0x300008 is not a multiple of 16 bytes");
  CHECK(output_refusal([](Tensor& o) { o.address += 4; }) ==
        "output.address 0x600004 is not a multiple of 16 bytes");
}

TEST_CASE("bug-pool 112: a row stride of head_dim + 1, and other strides") {
  CHECK(refusal([](AttentionCall& c) { c.key.row_stride = 41; }) ==
        "key.row_stride 41 is not a multiple of 8 elements (16 bytes)");
  CHECK(refusal([](AttentionCall& c) { c.key.head_stride = 12; }) ==
        "key.head_stride 12 is not a multiple of 8 elements (16 bytes)");
  CHECK(refusal([](AttentionCall& c) { c.query.row_stride = -240; }) == "query.row_stride -240 is negative");
  CHECK(refusal([](AttentionCall& c) { c.query.row_stride = std::int64_t{1} << 33; }) ==
        "query.row_stride 8589934592 is not below 8589934592 elements");
  CHECK(refusal([](AttentionCall& c) { c.query.head_stride = std::int64_t{1} << 39; }) ==
        "query.head_stride 549755813888 is not below 549755813888 elements");
}

TEST_CASE("sizes that overflow are refused by name") {
  const std::string spans = refusal([](AttentionCall& c) {
    c.query.rows = (1 << 30) - 1;
    c.query.row_stride = (std::int64_t{1} << 33) - 8;
  });
  CHECK(spans.starts_with("query: 1073741823 rows at stride 8589934584"));
  CHECK(refusal([](AttentionCall& c) {
          c.key_offset.count = c.query_offset.count = std::int64_t{1} << 32;
        }) == "key_offset.count 4294967296 is above 2147479553");
  AttentionCall shared = good_call();
  shared.broadcast_q = true;
  shared.query.rows = 1 << 20;
  shared.key_offset.count = (1 << 12) + 1;
  const Result<ValidCall> valid = validate(shared);
  REQUIRE_FALSE(valid.ok());
  CHECK(valid.status().kind() == ErrorKind::kUnsupported);
  CHECK(valid.status().message() ==
        "a batch of 4096 times query.rows 1048576 makes 4294967296 output rows, not below 2^30");
}

TEST_CASE("bug-pool 27: head counts that do not divide are refused with both counts") {
  const auto heads = [](std::int64_t query, std::int64_t key) {
    return refusal([=](AttentionCall& c) {
      c.query.heads = query;
      c.key.heads = c.value.heads = key;
    });
  };
  CHECK(heads(33, 2) == "query.heads 33 is not a multiple of key.heads 2");
  CHECK(heads(3, 2) == "query.heads 3 is not a multiple of key.heads 2");
  CHECK(heads(2, 3) == "query.heads 2 is not a multiple of key.heads 3");
  CHECK(heads(2, 0) == "query.heads 2 is not a multiple of key.heads 0");
  CHECK(heads(0, 0) == "accepted");
  CHECK(heads(0, 3) == "accepted");
  CHECK(refusal([](AttentionCall& c) { c.value.heads = 1; }) == "value.heads 1 differs from key.heads 2");
}

TEST_CASE("bug-pool 26: missing offsets are refused, not defaulted") {
  CHECK(refusal([](AttentionCall& c) { c.query_offset = {}; }) ==
        "query_offset.count 0 is below 1: a batch of n sequences has n + 1 offsets");
  CHECK(refusal([](AttentionCall& c) { c.key_offset.address = 0; }) ==
        "key_offset.address is null although its count is 4");
  CHECK(refusal([](AttentionCall& c) { c.output_offset = Offsets{}; }) ==
        "output_offset.count 0 is below 1: a batch of n sequences has n + 1 offsets");
}

TEST_CASE("offsets") {
  CHECK(refusal([](AttentionCall& c) { c.query_offset.count = 5; }) ==
        "query_offset.count 5 differs from key_offset.count 4");
  CHECK(refusal([](AttentionCall& c) {
          c.output_offset = Offsets{0x7000, 3, OffsetType::int32};
        }) == "output_offset.count 3 differs from key_offset.count 4");
  CHECK(refusal([](AttentionCall& c) { c.key_offset.address = 0x500004; }) ==
        "key_offset.address 0x500004 is not a multiple of 8 bytes");
  CHECK(refusal([](AttentionCall& c) { c.query_offset.address = 0x400002; }) ==
        "query_offset.address 0x400002 is not a multiple of 4 bytes");
  CHECK(refusal([](AttentionCall& c) { c.query_offset.type = static_cast<OffsetType>(9); }) ==
        "query_offset.type 9 is neither int32 nor int64");
  // Not read with broadcast_q.
  CHECK(refusal([](AttentionCall& c) { c.broadcast_q = true, c.query_offset = {}; }) == "accepted");
}

TEST_CASE("a structure of an earlier version of the C interface has the defaults of what was added since") {
  struct First {
    std::uint64_t struct_bytes;
    std::int64_t width;
  };
  struct Now {
    std::uint64_t struct_bytes;
    std::int64_t width;
    std::int64_t added;
    double added_later;
  };
  Now given{sizeof(First), 5, -1, 2.5};  // what lies behind an earlier structure is nobody's business
  Now read{1, 1, 1, 1};
  REQUIRE(read_structure("box", &given, sizeof(First), &read).ok());
  CHECK(read.width == 5);
  CHECK(read.added == 0);
  CHECK(read.added_later == 0);
  given.struct_bytes = 24;
  REQUIRE(read_structure("box", &given, sizeof(First), &read).ok());
  CHECK(read.added == -1);
  CHECK(read.added_later == 0);
  given.struct_bytes = 8;
  CHECK(read_structure("box", &given, sizeof(First), &read).message() ==
        "box.struct_bytes is 8: its first version has 16 bytes");
}

TEST_CASE("scale: any finite number that fp32 holds") {
  CHECK(refusal([](AttentionCall& c) { c.scale = std::numeric_limits<double>::infinity(); }) ==
        "scale inf is not a finite fp32 number");
  CHECK(refusal([](AttentionCall& c) { c.scale = std::nan(""); }) == "scale nan is not a finite fp32 number");
  CHECK(refusal([](AttentionCall& c) { c.scale = 1e39; }) == "scale 1e+39 is not a finite fp32 number");
  const Result<ValidCall> valid = validate(good_call());
  REQUIRE(valid.ok());
  CHECK(valid->scale == doctest::Approx(1 / std::sqrt(40.0)));
}

TEST_CASE("bug-pool 39: a negative window is refused, 0 is not") {
  Configuration configuration;
  configuration.window = -3;
  CHECK(supported(configuration).message().find("window -3 is negative") != std::string::npos);
  configuration.window = 0;
  CHECK(supported(configuration).ok());
  configuration.window = Window(-1, 0);
  CHECK(supported(configuration).message().find("window.left -1 is negative") != std::string::npos);
  configuration.window = Window(std::nullopt, -2);
  CHECK(supported(configuration).message().find("window.right -2 is negative") != std::string::npos);
}

TEST_CASE("a shared query is aligned top_left only") {
  Configuration configuration;
  configuration.broadcast_q = true;
  configuration.window = Window::causal();
  CHECK(supported(configuration).ok());
  configuration.window = Window(4, 0, Alignment::bottom_right);
  const Status refused = supported(configuration);
  CHECK(refused.kind() == ErrorKind::kUnsupported);
  CHECK(refused.message().find("window '4:0:bottom_right' with broadcast_q") != std::string::npos);
  configuration.window = Window(std::nullopt, std::nullopt, Alignment::bottom_right);  // hides nothing
  CHECK(supported(configuration).ok());
}

TEST_CASE("bug-pool 32: head_dims are right or refused, and the list can be asked for") {
  Configuration configuration;
  for (const std::int64_t head_dim : {8, 24, 40, 72, 96, 120}) {
    configuration.head_dim = head_dim;
    CHECK(supported(configuration).ok());
  }
  for (const std::int64_t head_dim : {0, -8, 12, 136, 1 << 20}) {
    configuration.head_dim = head_dim;
    const Status status = supported(configuration);
    CHECK(status.kind() == ErrorKind::kInvalidArgument);
    CHECK(status.message().find("head_dim " + std::to_string(head_dim)) != std::string::npos);
  }
  std::vector<std::int64_t> expected;
  for (std::int64_t head_dim = 8; head_dim <= 128; head_dim += 8) expected.push_back(head_dim);
  CHECK(supported_head_dims() == expected);
}

TEST_CASE("the output") {
  CHECK(output_refusal([](Tensor& o) { o.rows = 99; }) ==
        "output.rows 99 differs from the 100 rows of the call");
  CHECK(output_refusal([](Tensor& o) { o.rows = 500; }, true) == "accepted");
  CHECK(output_refusal([](Tensor& o) { o.heads = 2; }) == "output.heads 2 differs from query.heads 6");
  CHECK(output_refusal([](Tensor& o) { o.head_dim = 32; }) ==
        "output.head_dim 32 differs from query.head_dim 40");
  CHECK(output_refusal([](Tensor& o) { o.dtype = DType::bf16; }) ==
        "output.dtype bf16 differs from query.dtype fp16");
  CHECK(output_refusal([](Tensor& o) { o.row_stride = 0; }) ==
        "output.row_stride 0 is below head_dim 40: rows would overlap");
  CHECK(output_refusal([](Tensor& o) { o.head_stride = 32; }) ==
        "output.head_stride 32 is below head_dim 40: heads would overlap");
  CHECK(output_refusal([](Tensor&) {}, false, 0x7002) == "lse 0x7002 is not a multiple of 4 bytes");
}

TEST_CASE(
    "an output whose rows and heads lie across one another is refused, every layout that does not is not") {
  const auto with = [](std::int64_t rows, std::int64_t heads, std::int64_t row_stride,
                       std::int64_t head_stride) {
    AttentionCall call = good_call();
    for (Tensor* tensor : {&call.query, &call.key, &call.value}) {
      tensor->rows = rows;
      tensor->heads = heads;
    }
    call.query.row_stride = heads * 40;
    Tensor output = call.query;
    output.address = 0x6000000;
    output.row_stride = row_stride;
    output.head_stride = head_stride;
    const Result<ValidCall> valid = validate(call);
    REQUIRE_MESSAGE(valid.ok(), valid.status().message());
    const Status status = validate_output(*valid, call, output, 0).status();
    return status.ok() ? "accepted" : status.message();
  };
  // The heads left out of the row stride: row 1 of head 0 is row 0 of head 1.
  CHECK(with(8, 2, 40, 40) ==
        "output.row_stride 40 and output.head_stride 40: row 1 of head 0 and row 0 of head 1 would overlap");
  CHECK(with(8, 3, 80, 40) ==
        "output.row_stride 80 and output.head_stride 40: row 1 of head 0 and row 0 of head 2 would overlap");
  CHECK(with(3, 8, 40, 80).ends_with("row 2 of head 0 and row 0 of head 1 would overlap"));
  // By a part of a row only, and far from the first rows.
  CHECK(with(4, 2, 48, 104).ends_with("row 2 of head 0 and row 0 of head 1 would overlap"));
  CHECK(with(100, 2, 120, 40 * 3 * 98 + 8).ends_with("row 98 of head 0 and row 0 of head 1 would overlap"));
  CHECK(with(100, 5, 96, 240).ends_with("row 5 of head 0 and row 0 of head 2 would overlap"));
  // Packed, head-major, with gaps, interleaved.
  CHECK(with(8, 2, 80, 40) == "accepted");
  CHECK(with(8, 2, 40, 320) == "accepted");
  CHECK(with(8, 2, 400, 48) == "accepted");
  CHECK(with(8, 2, 48, 1000) == "accepted");
  CHECK(with(3, 2, 80, 120) == "accepted");    // rows at 0, 2, 4; the other head's at 3, 5, 7
  CHECK(with(2, 50, 2040, 80) == "accepted");  // head 25 lies between the rows of head 0 and 1
  CHECK(with(98, 2, 120, 40 * 3 * 98) == "accepted");
  // Of extent 1: ignored.
  CHECK(with(1, 3, 0, 40) == "accepted");
  CHECK(with(9, 1, 40, 0) == "accepted");
}

TEST_CASE("what is written over an input is refused by name, but for an output in the query's place") {
  const auto at = [](std::uint64_t address, std::uint64_t lse = 0) {
    return output_refusal([=](Tensor& output) { output.address = address; }, false, lse);
  };
  CHECK(at(0x200000 + 10 * 160) ==
        "output.address 0x200640 and key.address 0x200000 share memory: what is written must overlap nothing "
        "else");
  CHECK(at(0x300000 - 100 * 480 + 16).starts_with("output.address 0x2f4490 and value.address 0x300000"));
  CHECK(at(0x300000 - 100 * 480) == "accepted");
  CHECK(at(0x400000 - 16).starts_with("output.address 0x3ffff0 and query_offset.address 0x400000"));
  CHECK(at(0x600000, 0x600400).starts_with("output.address 0x600000 and lse 0x600400"));
  CHECK(at(0x600000, 0x500010).starts_with("lse 0x500010 and key_offset.address 0x500000"));
  CHECK(at(0x600000, 0x100000).starts_with("lse 0x100000 and query.address 0x100000"));

  CHECK(at(0x100000) == "accepted");
  CHECK(at(0x100000, 0x100100).starts_with("output.address 0x100000 and lse 0x100100"));
  CHECK(at(0x100000 + 480).starts_with("output.address 0x1001e0 and query.address 0x100000"));
  const auto transposed = [](Tensor& output) {
    output = good_call().query;
    output.row_stride = 40;
    output.head_stride = 4000;
  };
  CHECK(output_refusal(transposed).starts_with("output.address 0x100000 and query.address 0x100000"));
  // Output rows that are not the query's: another sequence may not have been read yet.
  CHECK(output_refusal([](Tensor& output) { output.address = 0x100000; }, true)
            .starts_with("output.address 0x100000 and query.address"));
}

TEST_CASE("footprints: views into one buffer lie apart, whatever lies between their rows") {
  constexpr std::uint64_t kBase = 0x1000000;
  const auto view = [](std::int64_t first, std::int64_t rows, std::int64_t heads, std::int64_t row_stride,
                       std::int64_t head_stride) {
    return Footprint::of(Tensor{kBase + static_cast<std::uint64_t>(2 * first), rows, heads, 16, row_stride,
                                head_stride, DType::bf16});
  };
  const auto meet = [](const Footprint& a, const Footprint& b) {
    CHECK(a.meets(b) == b.meets(a));
    return a.meets(b);
  };
  SUBCASE("[rows, query heads + 2 key heads, 16]") {
    const Footprint query = view(0, 50, 4, 128, 16), key = view(64, 50, 2, 128, 16),
                    value = view(96, 50, 2, 128, 16);
    CHECK_FALSE(meet(query, key));
    CHECK_FALSE(meet(key, value));
    CHECK(meet(query, view(48, 50, 2, 128, 16)));
    CHECK(meet(key, view(80, 50, 2, 128, 16)));
    CHECK_FALSE(meet(key, view(-128 + 96, 50, 2, 128, 16)));
    CHECK_FALSE(meet(value, view(128 * 50 + 96, 50, 2, 128, 16)));
    CHECK(meet(value, view(128 * 49 + 96, 50, 2, 128, 16)));
  }
  SUBCASE("[rows, heads, 3, 16], and with gaps behind the heads") {
    for (const std::int64_t head_stride : {48, 56}) {
      const std::int64_t row_stride = 4 * head_stride + (head_stride == 48 ? 0 : 24);
      const auto part = [&](std::int64_t first) { return view(first, 30, 4, row_stride, head_stride); };
      CHECK_FALSE(meet(part(0), part(16)));
      CHECK_FALSE(meet(part(16), part(32)));
      CHECK(meet(part(0), part(8)));
      CHECK(meet(part(0), part(head_stride * 2 + row_stride)));
    }
  }
  SUBCASE("head-major beside rows: unlike strides") {
    const Footprint rows = view(0, 30, 4, 200, 16);
    CHECK(meet(rows, view(200 * 3, 20, 2, 48, 1000)));  // its first element is an element of row 3
    CHECK_FALSE(meet(rows, view(64, 20, 1, 200, 16)));  // in the gaps
    CHECK(meet(rows, Footprint::of_bytes(kBase + 2 * 263, 4)));
    CHECK(meet(rows, Footprint::of_bytes(kBase + 2 * 263, 2)));
    CHECK_FALSE(meet(rows, Footprint::of_bytes(kBase + 2 * 264, 2 * 136)));
    CHECK(meet(rows, Footprint::of_bytes(kBase + 2 * 264, 2 * 137)));
  }
  SUBCASE("output gradients: expanded, transposed, backwards") {
    const auto gradient = [](std::int64_t first, std::int64_t row, std::int64_t head, std::int64_t dim) {
      return Footprint::of(OutputGradient{kBase + static_cast<std::uint64_t>(2 * first), 10, 2, 16, row, head,
                                          dim, DType::bf16});
    };
    const Footprint packed = view(0, 10, 2, 32, 16);
    CHECK(meet(packed, gradient(319, 0, 0, 0)));
    CHECK_FALSE(meet(packed, gradient(320, 0, 0, 0)));
    CHECK(meet(packed, gradient(319, 1, 160, 10)));
    CHECK_FALSE(meet(packed, gradient(320, 1, 160, 10)));
    CHECK(meet(packed, gradient(320 + 10 * 32 - 32 - 1, -32, 16, 1)));
    CHECK_FALSE(meet(packed, gradient(320 + 9 * 32, -32, 16, 1)));
  }
  CHECK_FALSE(meet(Footprint(), view(0, 1, 1, 16, 16)));
}

TEST_CASE("footprints of random layouts agree with a count of their elements") {
  std::uint64_t state = 1;
  const auto draw = [&](std::int64_t most) {  // 0 … most
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(most + 1));
  };
  const auto elements = [](const Tensor& tensor) {
    std::multiset<std::int64_t> places;
    for (std::int64_t row = 0; row < tensor.rows; ++row) {
      for (std::int64_t head = 0; head < tensor.heads; ++head) {
        for (std::int64_t column = 0; column < tensor.head_dim; ++column)
          places.insert(static_cast<std::int64_t>(tensor.address) / 2 + row * tensor.row_stride +
                        head * tensor.head_stride + column);
      }
    }
    return places;
  };
  int overlapping = 0, meeting = 0, missed = 0;
  for (int i = 0; i < 20000; ++i) {
    const Tensor a{0x1000, 1 + draw(4), 1 + draw(4), 2, 2 + draw(12), 2 + draw(12), DType::bf16};
    const std::multiset<std::int64_t> places = elements(a);
    const bool overlaps = std::set(places.begin(), places.end()).size() < places.size();
    CHECK(find_self_overlap(a).has_value() == overlaps);
    overlapping += overlaps;

    Tensor b = a;
    b.address += static_cast<std::uint64_t>(2 * draw(40));
    b.rows = 1 + draw(4);
    const bool same_strides = draw(1) == 1;
    if (!same_strides) {
      b.row_stride = draw(12);
      b.head_stride = draw(12);
    }
    const std::multiset<std::int64_t> others = elements(b);
    const bool meet = std::any_of(others.begin(), others.end(),
                                  [&](std::int64_t place) { return places.count(place) > 0; });
    const bool found = Footprint::of(a).meets(Footprint::of(b));
    CHECK(found == Footprint::of(b).meets(Footprint::of(a)));
    if (found) CHECK(meet);
    if (same_strides) CHECK(found == meet);
    meeting += meet;
    missed += meet && !found;
  }
  CHECK(overlapping > 1000);
  CHECK(meeting > 1000);
  CHECK(missed < meeting / 20);  // of unlike strides, whose ends lie apart
}

TEST_CASE("bug-pool 24: strides of dimensions of extent 1 are ignored") {
  for (const std::int64_t stride : {1, 0, 999, -5}) {
    AttentionCall call = good_call();
    for (Tensor* tensor : {&call.query, &call.key, &call.value}) {
      tensor->rows = 1;
      tensor->row_stride = stride;
    }
    call.key.heads = call.value.heads = 1;
    call.key.head_stride = call.value.head_stride = stride;
    const Result<ValidCall> valid = validate(call);
    REQUIRE_MESSAGE(valid.ok(), valid.status().message());
    for (const Tensor* tensor : {&valid->query, &valid->key, &valid->value})
      CHECK(tensor->row_stride % 8 == 0);
    CHECK(valid->key.head_stride % 8 == 0);
    CHECK(valid->query.head_stride == 40);
  }
}

TEST_CASE("bug-pool 53: workspace of a skewed batch is a 64-bit number that follows the tokens") {
  AttentionCall call;
  const std::int64_t batch = 4096, rows = 131072 + 4095;
  call.query = Tensor::packed(0x1000, rows, 32, 128, DType::bf16);
  call.key = call.value = Tensor::packed(0x2000, 64 * batch, 32, 128, DType::bf16);
  call.query_offset = call.key_offset = {0x3000, batch + 1, OffsetType::int64};
  const Result<std::uint64_t> bytes = workspace_bytes(call);
  REQUIRE(bytes.ok());
  CHECK(*bytes < 1 << 20);
  CHECK(*bytes > 128);
}

TEST_CASE(
    "element counts past 2^31 and batches past 65,535 are right, work lists past 2^31 refused by name") {
  AttentionCall call = good_call();
  call.query = Tensor::packed(0x1000, 1 << 26, 64, 128, DType::bf16);
  call.key = call.value = Tensor::packed(0x2000, 1 << 26, 64, 128, DType::bf16);
  call.query_offset.count = call.key_offset.count = 100001;
  CHECK(workspace_bytes(call).ok());
  call.query_offset.count = call.key_offset.count = (1 << 26) + 1;
  const Result<std::uint64_t> refused = workspace_bytes(call);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().kind() == ErrorKind::kUnsupported);
  CHECK(refused.status().message().find("query.heads 64") != std::string::npos);
}
