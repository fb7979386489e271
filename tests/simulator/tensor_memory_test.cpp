// Tensor memory: its allocator, where registers, accumulators and operands lie, and who may touch what when.
#include "simulator/tensor_core/tensor_memory.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "simulator/checkers/tensor_memory_shadow.h"
#include "simulator/tensor_core/tensor_memory_shape.h"

namespace jfa::simulator::tensor_memory_test {

namespace {

const ProgramPoint kNowhere{};

// The kind of error that `action` throws, and a part of its message.
template <class Action>
bool fails(ErrorKind kind, const std::string& part, Action action) {
  try {
    action();
  } catch (const SimulationError& error) {
    const bool as_expected =
        error.report().kind == kind && error.report().message.find(part) != std::string::npos;
    if (!as_expected) MESSAGE(to_string(error.report().kind) << ": " << error.report().message);
    return as_expected;
  }
  return false;
}

}  // namespace

TEST_CASE("tensor memory is given out first fit from column 0") {
  TensorMemory memory(true);
  const int a = 0;
  const int b = 0;
  CHECK(memory.allocate(&a, 128, kNowhere) == 0u);
  CHECK(memory.allocate(&a, 128, kNowhere) == 128u);
  CHECK(memory.allocate(&b, 256, kNowhere) == 256u);
  CHECK_FALSE(memory.fits(32));
  CHECK_FALSE(memory.allocate(&a, 32, kNowhere).has_value());
  memory.deallocate(&a, TensorAddress(0, 128), 128, kNowhere);
  CHECK(memory.fits(128));
  CHECK_FALSE(memory.fits(256));
  CHECK(memory.allocate(&a, 64, kNowhere) == 128u);
  CHECK(memory.allocate(&a, 32, kNowhere) == 192u);
  CHECK(memory.describe_allocations() ==
        "allocated: columns 0..127 columns 128..191 columns 192..223 columns 256..511");
}

TEST_CASE("tensor memory: columns that are free in both memories of a pair") {
  TensorMemory a(true), b(true);
  const int owner = 0;
  a.take(&owner, 0, 64);    // free: 64..127, 192..511
  a.take(&owner, 128, 64);  //
  b.take(&owner, 64, 32);   // free: 0..63, 96..255, 320..511
  b.take(&owner, 256, 64);  //
  CHECK(TensorMemory::common_fit(a, b, 32) == 96u);
  CHECK(TensorMemory::common_fit(b, a, 32) == 96u);
  CHECK(TensorMemory::common_fit(a, b, 64) == 192u);
  CHECK(TensorMemory::common_fit(a, b, 128) == 320u);
  CHECK(TensorMemory::common_fit(b, a, 128) == 320u);
  CHECK_FALSE(TensorMemory::common_fit(a, b, 256).has_value());
}

TEST_CASE("tensor memory: what an allocation may not be") {
  TensorMemory memory(true);
  const int cta = 0;
  const int other = 0;
  const auto refused = [&](std::uint32_t columns, const char* part) {
    return fails(ErrorKind::kTensorMemory, part, [&] { memory.allocate(&cta, columns, kNowhere); });
  };
  CHECK(refused(16, "16 columns"));
  CHECK(refused(48, "48 columns"));
  CHECK(refused(1024, "1024 columns"));
  CHECK(refused(0, "0 columns"));
  CHECK(memory.allocate(&cta, 64, kNowhere) == 0u);
  CHECK(refused(128, "must not grow"));
  memory.relinquish(&cta);
  CHECK(refused(32, "relinquish_alloc_permit"));

  const auto not_freed = [&](const void* owner, std::uint32_t address, std::uint32_t columns) {
    return fails(ErrorKind::kTensorMemory, "did not allocate",
                 [&] { memory.deallocate(owner, TensorAddress(address), columns, kNowhere); });
  };
  CHECK(not_freed(&other, 0, 64));
  CHECK(not_freed(&cta, 0, 32));
  CHECK(not_freed(&cta, 32, 32));
  CHECK(not_freed(&cta, 1 << 16, 64));
  CHECK(fails(ErrorKind::kTensorMemory, "without tcgen05.dealloc of its 64 columns",
              [&] { memory.release(&cta, kNowhere); }));
  memory.deallocate(&cta, TensorAddress(0), 64, kNowhere);
  memory.release(&cta, kNowhere);
  CHECK(memory.allocate(&cta, 128, kNowhere) == 0u);  // a new CTA may be at the same address
}

TEST_CASE("tensor memory: cells outside an allocation, or read before they are written") {
  TensorMemory memory(true);
  const int cta = 0;
  const int other = 0;
  memory.allocate(&other, 32, kNowhere);
  memory.allocate(&cta, 64, kNowhere);  // columns 32..95
  memory.allocate(&cta, 32, kNowhere);  // columns 96..127
  memory.check_allocated(&cta, {0xff, 32, 128}, "ld", kNowhere);
  const auto outside = [&](std::uint32_t first, std::uint32_t end, const char* part) {
    return fails(ErrorKind::kTensorMemory, part, [&] {
      memory.check_allocated(&cta, {0xff, first, end}, "ld", kNowhere);
    });
  };
  CHECK(outside(31, 40, "column 31 is not"));
  CHECK(outside(120, 130, "column 128 is not"));
  CHECK(outside(500, 520, "column 500 is not"));

  const TensorRegion quarter{0b1100, 32, 40};
  CHECK(quarter.describe() == "lanes 32..63, columns 32..39");
  CHECK(TensorRegion{0b01010101, 0, 8}.describe() == "lanes 0..15,32..47,64..79,96..111, columns 0..7");
  CHECK(fails(ErrorKind::kUninitialised, "lane 32 column 32",
              [&] { memory.check_initialised(quarter, "ld", kNowhere); }));
  memory.set_initialised(quarter);
  memory.check_initialised(quarter, "ld", kNowhere);
  CHECK(fails(ErrorKind::kUninitialised, "lane 64 column 32", [&] {
    memory.check_initialised({0b11100, 32, 40}, "ld", kNowhere);
  }));
  memory.set_initialised(4, 32, 0x7fff);  // all lanes but the last
  CHECK(fails(ErrorKind::kUninitialised, "lane 79 column 32", [&] {
    memory.check_initialised({0b10000, 32, 33}, "ld", kNowhere);
  }));
  memory.deallocate(&cta, TensorAddress(0, 32), 64, kNowhere);
  memory.allocate(&cta, 32, kNowhere);
  CHECK(fails(ErrorKind::kUninitialised, "lane 32 column 32",
              [&] { memory.check_initialised(quarter, "ld", kNowhere); }));
}

TEST_CASE("tensor memory: a shift moves what is not written, too") {
  TensorMemory memory(true);
  const int cta = 0;
  memory.allocate(&cta, 32, kNowhere);
  const auto written = [&](std::uint32_t block) {
    std::uint32_t lanes = 0;
    for (std::uint32_t lane = 0; lane < kTensorBlockLanes; ++lane) {
      TensorMemory copy = memory;
      copy.set_initialised(block, 3, ~(1u << lane));
      lanes |= fails(ErrorKind::kUninitialised, "",
                     [&] {
                       copy.check_initialised({1u << block, 3, 4}, "tcgen05.ld", kNowhere);
                     })
                   ? 0
                   : 1u << lane;
    }
    return lanes;
  };
  memory.set_initialised(2, 3, 0x0001);
  memory.set_initialised(3, 3, 0x8003);
  memory.shift_initialised(2, 3);
  CHECK(written(2) == 0x8000);
  CHECK(written(3) == 0xc001);
}

TEST_CASE("tcgen05.ld and st: the cell of every register of every thread") {
  const auto at = [](TensorShape shape, int index, int lane, std::uint32_t split = 0, bool packed = false) {
    const TensorCell cell = register_cell(shape, index, lane, split, packed);
    return std::pair(cell.lane, cell.column);
  };
  using P = std::pair<std::uint32_t, std::uint32_t>;
  CHECK(at(TensorShape::k32x32b, 5, 17) == P(17, 5));
  CHECK(at(TensorShape::k32x32b, 5, 17, 0, true) == P(17, 10));
  // 16x64b: rows t/4 + 8 (t odd), columns 2r + bit 1 of t.
  CHECK(at(TensorShape::k16x64b, 0, 1) == P(8, 0));
  CHECK(at(TensorShape::k16x64b, 3, 30) == P(7, 7));
  CHECK(at(TensorShape::k16x64b, 3, 31) == P(15, 7));
  CHECK(at(TensorShape::k16x128b, 0, 5) == P(1, 1));
  CHECK(at(TensorShape::k16x128b, 5, 5) == P(9, 9));
  // 16x256b is the accumulator fragment of mma.
  CHECK(at(TensorShape::k16x256b, 0, 6) == P(1, 4));
  CHECK(at(TensorShape::k16x256b, 1, 6) == P(1, 5));
  CHECK(at(TensorShape::k16x256b, 2, 6) == P(9, 4));
  CHECK(at(TensorShape::k16x256b, 7, 6) == P(9, 13));
  CHECK(at(TensorShape::k16x32bx2, 3, 4, 64) == P(4, 3));
  CHECK(at(TensorShape::k16x32bx2, 3, 20, 64) == P(4, 67));
  CHECK(at(TensorShape::k16x32bx2, 3, 20, 64, true) == P(4, 70));

  // Each shape moves every cell of its rectangle exactly once.
  for (const TensorShape shape : {TensorShape::k32x32b, TensorShape::k16x64b, TensorShape::k16x128b,
                                  TensorShape::k16x256b, TensorShape::k16x32bx2}) {
    const int repetitions = 8;
    const int registers = repetitions * registers_per_repetition(shape);
    const int columns = repetitions * columns_per_repetition(shape);
    std::set<P> cells;
    for (int r = 0; r < registers; ++r) {
      for (int t = 0; t < 32; ++t) cells.insert(at(shape, r, t, static_cast<std::uint32_t>(columns)));
    }
    CHECK(cells.size() == static_cast<std::size_t>(registers) * 32);
    CHECK(cells.rbegin()->first == shape_lanes(shape) - 1);
    const int halves = shape == TensorShape::k16x32bx2 ? 2 : 1;
    CHECK(cells.size() == shape_lanes(shape) * static_cast<std::size_t>(columns * halves));
  }
}

TEST_CASE("where an accumulator lies, for every M and cta_group") {
  const auto at = [](int group, std::uint32_t m_extent, std::uint32_t n_extent, std::uint32_t m,
                     std::uint32_t n) {
    const AccumulatorPlace place = accumulator_place(group, m_extent, n_extent, m, n);
    return std::tuple(place.cta, place.cell.lane, place.cell.column);
  };
  using T = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  CHECK(at(1, 128, 256, 77, 200) == T(0, 77, 200));
  CHECK(at(1, 64, 128, 15, 3) == T(0, 15, 3));
  CHECK(at(1, 64, 128, 16, 3) == T(0, 32, 3));
  CHECK(at(1, 64, 128, 63, 127) == T(0, 111, 127));
  CHECK(at(2, 256, 256, 127, 9) == T(0, 127, 9));
  CHECK(at(2, 256, 256, 128, 9) == T(1, 0, 9));
  CHECK(at(2, 128, 64, 63, 31) == T(0, 63, 31));
  CHECK(at(2, 128, 64, 63, 32) == T(0, 127, 0));
  CHECK(at(2, 128, 64, 64, 33) == T(1, 64, 1));
  CHECK(accumulator_columns(1, 64, 128) == 128);
  CHECK(accumulator_columns(2, 256, 128) == 128);
  CHECK(accumulator_columns(2, 128, 128) == 64);

  // Places of different elements differ, and lie in the blocks and columns that are checked.
  for (const auto& [group, m_extent] :
       {std::pair(1, 64u), std::pair(1, 128u), std::pair(2, 128u), std::pair(2, 256u)}) {
    const std::uint32_t n_extent = 32;
    std::set<T> places;
    for (std::uint32_t m = 0; m < m_extent; ++m) {
      for (std::uint32_t n = 0; n < n_extent; ++n) {
        const T place = at(group, m_extent, n_extent, m, n);
        places.insert(place);
        CHECK((accumulator_blocks(group, m_extent) >> std::get<1>(place) / kTensorBlockLanes & 1) == 1);
        CHECK(std::get<2>(place) < accumulator_columns(group, m_extent, n_extent));
      }
    }
    CHECK(places.size() == m_extent * n_extent);
  }
}

TEST_CASE("tensor memory in flight: others keep off until completion is observed") {
  using Access = TensorMemoryShadow::Access;
  TensorMemoryShadow shadow;
  FlightId last = 0;
  const TensorStrand mma{0, 0, 0};
  const TensorStrand softmax{0, 0, 4};
  const TensorRegion d{0xff, 0, 128};
  const TensorRegion quarter{0b11, 64, 96};
  const auto begin = [&](Access access, const TensorRegion& region, const TensorStrand& strand,
                         TensorOrder order) {
    shadow.issue(++last, access, region, order != 0 ? "tcgen05.mma" : "tcgen05.ld", strand, order, kNowhere);
    return last;
  };
  const auto first = begin(Access::kWrite, d, mma, 7);
  const auto second = begin(Access::kWrite, d, mma, 7);  // the same accumulator: in order
  CHECK(fails(ErrorKind::kInFlight, "while tcgen05.mma is still in flight",
              [&] { begin(Access::kRead, quarter, softmax, 0); }));
  CHECK(fails(ErrorKind::kInFlight, "writes tensor memory",
              [&] { begin(Access::kWrite, quarter, softmax, 0); }));
  CHECK(fails(ErrorKind::kInFlight, "tcgen05.mma writes", [&] { begin(Access::kWrite, d, mma, 8); }));
  CHECK(fails(ErrorKind::kInFlight, "tcgen05.dealloc",
              [&] { shadow.free(d, "tcgen05.dealloc", softmax, kNowhere); }));
  begin(Access::kRead, {0xff, 128, 160}, softmax, 0);  // beside it
  shadow.end_flight(first, {});
  CHECK(shadow.in_flight(second));
  CHECK(fails(ErrorKind::kInFlight, "", [&] { begin(Access::kRead, quarter, softmax, 0); }));
  shadow.end_flight(second, {});
  shadow.end_flight(second, {});  // twice is fine
  shadow.free(d, "tcgen05.dealloc", softmax, kNowhere);
}

TEST_CASE("tensor memory: the tcgen05 fences between producers and consumers") {
  using Access = TensorMemoryShadow::Access;
  TensorMemoryShadow shadow;
  FlightId last = 0;
  TensorStrand mma{0, 0, 1};
  TensorStrand softmax{0, 0, 4};
  const TensorRegion s{0xff, 0, 32};
  const auto mma_writes = [&](TensorOrder order = 7) {
    shadow.issue(++last, Access::kWrite, s, "tcgen05.mma", mma, order, kNowhere);
    shadow.end_flight(last, {});
  };
  const auto transfer = [&](Access access, const char* what) {
    shadow.issue(++last, access, s, what, softmax, 0, kNowhere);
    shadow.end_flight(last, {});
  };
  const auto load = [&] { transfer(Access::kRead, "tcgen05.ld"); };
  const auto store = [&] { transfer(Access::kWrite, "tcgen05.st"); };
  const char* after = "without tcgen05.fence::after_thread_sync by this thread";
  const char* before = "without tcgen05.fence::before_thread_sync by the thread that did";

  SUBCASE("mma to ld: the reader's fence") {
    shadow.fence_after(softmax, nullptr, 0);  // too early
    mma_writes();
    CHECK(fails(ErrorKind::kMissingFence, after, load));
    shadow.fence_after(softmax, nullptr, 0);
    load();
  }
  SUBCASE("mma to mma of one accumulator needs none") {
    mma_writes();
    mma_writes();
    CHECK(fails(ErrorKind::kMissingFence, after, [&] { mma_writes(8); }));
  }
  SUBCASE("ld to an mma that overwrites: fences on both sides") {
    mma_writes();
    shadow.fence_after(softmax, nullptr, 0);
    load();
    shadow.fence_after(mma, nullptr, 0);
    CHECK(fails(ErrorKind::kMissingFence, before, [&] { mma_writes(8); }));
    shadow.fence_before(softmax);
    mma_writes(8);
  }
  SUBCASE("st to an mma that reads: fences on both sides") {
    const auto mma_reads = [&] { shadow.issue(++last, Access::kRead, s, "tcgen05.mma", mma, 7, kNowhere); };
    store();
    store();  // a warp and itself
    load();
    shadow.fence_before(softmax);
    CHECK(fails(ErrorKind::kMissingFence, after, mma_reads));
    shadow.fence_after(mma, nullptr, 0);
    mma_reads();
  }
  SUBCASE("new columns have no past") {
    mma_writes();
    shadow.allocate(s);
    load();
  }
}

}  // namespace jfa::simulator::tensor_memory_test
