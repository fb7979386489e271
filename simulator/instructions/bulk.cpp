// cp.async.bulk.*, cp.reduce.async.bulk.* and the prefetches beside them.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <vector>

#include "simulator/async/bulk_copy.h"
#include "simulator/async/bulk_copy_groups.h"
#include "simulator/async/mbarrier.h"
#include "simulator/async/tma.h"
#include "simulator/decode/instruction_table.h"
#include "simulator/instructions/async_address.h"
#include "simulator/instructions/async_copy.h"
#include "simulator/instructions/async_store.h"
#include "simulator/instructions/map_access.h"
#include "simulator/machine/machine.h"

namespace jfa::simulator {
namespace {

struct BulkOperands {
  AddressOperand destination;  // shared
  AddressOperand source;       // shared
  AddressOperand barrier;
  AddressOperand map;    // or a global address
  bool gathers = false;  // .tile::gather4, .tile::scatter4: a column and four rows
  std::vector<Slot> coordinates;
  Slot bytes = kNoSlot;
  Slot mask = kNoSlot;        // of CTAs, or of bytes
  bool own_cta_only = false;  // .shared::cta destination
  bool peer_barrier = false;  // .cta_group::2: the barrier may be in the other CTA of the pair
  std::optional<ReductionOp> op;
  ReductionType type = ReductionType::kB32;
};

// --- Destinations in shared memory

// CTAs are paired by the lowest bit of their rank.
bool same_pair(const Cta& a, const Cta& b) { return a.rank() / 2 == b.rank() / 2; }

BulkDestination destination_in(Cta* cta, std::uint32_t offset, Cta* barrier_cta, std::uint32_t barrier_offset,
                               const ProgramPoint& point) {
  return {cta, offset, &barrier_cta->extension<Mbarriers>().at(barrier_offset, point)};
}

Cta& live_cta(const Warp& warp, std::uint32_t rank, const ProgramPoint& point) {
  Cta* cta = warp.cta().cluster().cta(rank);
  if (!cta)
    fail(ErrorKind::kInvalidOperand, point,
         fmt::format("CTA rank {} of a multicast is beyond the cluster of {}", rank,
                     warp.cta().cluster().size()));
  if (cta->exited())
    fail(ErrorKind::kOutOfBounds, point, fmt::format("CTA rank {} of a multicast has exited", rank));
  return *cta;
}

std::vector<BulkDestination> destinations_of(Warp& warp, const BulkOperands& o, int lane,
                                             const ProgramPoint& point) {
  const SharedPlace to = shared_place_of(warp, o.destination, lane, point);
  const SharedPlace barrier = shared_place_of(warp, o.barrier, lane, point);
  if (o.own_cta_only) own_shared_offset_of(warp, o.destination, lane, point);
  if (o.peer_barrier ? !same_pair(*to.cta, *barrier.cta) : to.cta != barrier.cta)
    fail(ErrorKind::kInvalidOperand, point,
         fmt::format("the destination is in CTA rank {}, its mbarrier in CTA rank {}", to.cta->rank(),
                     barrier.cta->rank()));
  if (o.mask == kNoSlot) return {destination_in(to.cta, to.offset, barrier.cta, barrier.offset, point)};

  std::vector<BulkDestination> destinations;
  const std::uint32_t mask = warp.lanes<std::uint32_t>(o.mask)[lane] & 0xffff;
  if (mask == 0) fail(ErrorKind::kInvalidOperand, point, "the CTA mask of the multicast is 0");
  for (std::uint32_t rank = 0; rank < 16; ++rank) {
    if (!(mask >> rank & 1)) continue;
    // The same offsets in each; with cta_group::2 the barrier's CTA says which of every pair is signalled.
    const std::uint32_t barrier_rank = o.peer_barrier ? (rank & ~1u) | (barrier.cta->rank() & 1) : rank;
    destinations.push_back(destination_in(&live_cta(warp, rank, point), to.offset,
                                          &live_cta(warp, barrier_rank, point), barrier.offset, point));
  }
  return destinations;
}

LaneMask issuing_lanes(Warp& warp, const BulkOperands& o, LaneMask active) {
  return simulator::issuing_lanes(warp, active, [&] {
    for (const AddressOperand* address : {&o.destination, &o.source, &o.barrier, &o.map})
      if (!same_in_lanes(warp, *address, active)) return false;
    for (const Slot coordinate : o.coordinates)
      if (!same_in_lanes(warp, coordinate, false, active)) return false;
    return same_in_lanes(warp, o.bytes, false, active) && same_in_lanes(warp, o.mask, false, active);
  });
}

// --- Tensors

TensorBox box_of(Warp& warp, const BulkOperands& o, int lane, const ProgramPoint& point) {
  TensorBox box;
  const std::uint64_t address = address_of(warp, o.map, lane);
  const std::string wrong = decode_tensor_map(use_tensor_map(warp, address, point), &box.map);
  if (!wrong.empty()) fail_at(ErrorKind::kDescriptor, point, address, wrong);
  if (o.gathers) {
    if (box.map.rank != 2 || box.map.box[1] != 1)
      fail_at(
          ErrorKind::kDescriptor, point, address,
          fmt::format("gather4 and scatter4 take a tensor map of rank 2 with boxes of one row, not of rank "
                      "{} and {} rows",
                      box.map.rank, box.map.box[1]));
    box.map.box[1] = kGatheredRows;
    box.gathered.emplace();
    for (std::size_t i = 0; i < kGatheredRows; ++i)
      (*box.gathered)[i] = warp.lanes<std::int32_t>(o.coordinates[i + 1])[lane];
    box.coordinates[0] = warp.lanes<std::int32_t>(o.coordinates[0])[lane];
    return box;
  }
  if (box.map.rank != o.coordinates.size())
    fail_at(ErrorKind::kDescriptor, point, address,
            fmt::format("{} coordinates for a tensor map of rank {}", o.coordinates.size(), box.map.rank));
  for (std::size_t d = 0; d < o.coordinates.size(); ++d)
    box.coordinates[d] = warp.lanes<std::int32_t>(o.coordinates[d])[lane];
  return box;
}

Step tensor_load(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<BulkOperands>();
  for_each_lane(warp, in, issuing_lanes(warp, o, active), [&](int lane, const ProgramPoint& point) {
    start_tensor_load(warp.machine(), box_of(warp, o, lane, point), destinations_of(warp, o, lane, point),
                      point);
  });
  return Step::kNext;
}

Step tensor_store(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<BulkOperands>();
  for_each_lane(warp, in, issuing_lanes(warp, o, active), [&](int lane, const ProgramPoint& point) {
    const std::uint32_t from = own_shared_offset_of(warp, o.source, lane, point);
    start_tensor_store(warp.machine(), box_of(warp, o, lane, point), warp.cta(), from, o.op, point);
  });
  return Step::kNext;
}

// A prefetch moves nothing here, but a wrong map or box would still fault.
Step tensor_prefetch(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<BulkOperands>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    const TensorBox box = box_of(warp, o, lane, point);
    const std::string wrong = check_box(box.map, box.coordinates, 0, false);
    if (!wrong.empty()) fail(ErrorKind::kInvalidOperand, point, wrong);
  });
  return Step::kNext;
}

Step map_prefetch(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<BulkOperands>();
  for_each_lane(warp, in, active, [&](int lane, const ProgramPoint& point) {
    TensorMap map;
    const std::uint64_t address = address_of(warp, o.map, lane);
    const std::string wrong = decode_tensor_map(use_tensor_map(warp, address, point), &map);
    if (!wrong.empty()) fail_at(ErrorKind::kDescriptor, point, address, wrong);
  });
  return Step::kNext;
}

// --- Without a tensor map

Step bulk_load(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<BulkOperands>();
  for_each_lane(warp, in, issuing_lanes(warp, o, active), [&](int lane, const ProgramPoint& point) {
    start_bulk_load(warp.machine(), address_of(warp, o.map, lane), warp.lanes<std::uint32_t>(o.bytes)[lane],
                    destinations_of(warp, o, lane, point), point);
  });
  return Step::kNext;
}

Step bulk_store(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<BulkOperands>();
  for_each_lane(warp, in, issuing_lanes(warp, o, active), [&](int lane, const ProgramPoint& point) {
    const std::uint32_t from = own_shared_offset_of(warp, o.source, lane, point);
    std::optional<ReductionKind> reduction;
    if (o.op) reduction = ReductionKind{*o.op, o.type};
    const auto mask = o.mask == kNoSlot ? std::uint16_t{0xffff}
                                        : static_cast<std::uint16_t>(warp.lanes<std::uint32_t>(o.mask)[lane]);
    start_bulk_store(warp.machine(), warp.cta(), from, address_of(warp, o.map, lane),
                     warp.lanes<std::uint32_t>(o.bytes)[lane], reduction, mask, point);
  });
  return Step::kNext;
}

Step bulk_peer_copy(Warp& warp, const Instruction& in, LaneMask active) {
  const auto& o = in.data<BulkOperands>();
  for_each_lane(warp, in, issuing_lanes(warp, o, active), [&](int lane, const ProgramPoint& point) {
    const std::uint32_t from = own_shared_offset_of(warp, o.source, lane, point);
    start_bulk_peer_copy(warp.machine(), warp.cta(), from, warp.lanes<std::uint32_t>(o.bytes)[lane],
                         destinations_of(warp, o, lane, point).front(), point);
  });
  return Step::kNext;
}

// --- Bulk groups

Step commit_bulk_group(Warp& warp, const Instruction&, LaneMask active) {
  auto& groups = warp.cta().extension<BulkGroups>();
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (active >> lane & 1) groups.commit(warp.thread(lane));
  return Step::kNext;
}

class BulkGroupWait final : public Wait {
 public:
  BulkGroupWait(Warp& warp, LaneMask lanes, std::uint32_t keep, bool read_only)
      : warp_(warp), lanes_(lanes), keep_(keep), read_only_(read_only) {}

  bool ready() const override {
    const auto& groups = warp_.cta().extension<BulkGroups>();
    for (int lane = 0; lane < kWarpSize; ++lane)
      if (lanes_ >> lane & 1 && !groups.finished(warp_.thread(lane), keep_, read_only_)) return false;
    return true;
  }
  std::string describe() const override {
    return fmt::format("all but {} bulk groups of the thread to {}", keep_,
                       read_only_ ? "have read their sources" : "complete");
  }

 private:
  Warp& warp_;
  LaneMask lanes_;
  std::uint32_t keep_;
  bool read_only_;
};

// immediate: groups that may stay pending; small[0]: .read.
Step wait_bulk_group(Warp& warp, const Instruction& in, LaneMask active) {
  const auto keep = static_cast<std::uint32_t>(in.immediate);
  auto wait = std::make_unique<BulkGroupWait>(warp, active, keep, in.small[0] != 0);
  if (!wait->ready()) return warp.wait_for(std::move(wait), Resume::kRetry);
  auto& groups = warp.cta().extension<BulkGroups>();
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (active >> lane & 1)
      groups.observe(warp.thread(lane), keep, in.small[0] != 0, warp.event(LaneMask{1} << lane));
  return Step::kNext;
}

// --- Decoding

constexpr const char* kDims = "(1d|2d|3d|4d|5d)";

void decode_box(Decoder& d, int operand, BulkOperands* o) {
  o->map = d.address(operand);
  o->coordinates = d.coordinates(operand);
  const std::string_view dims = d.first_of({"1d", "2d", "3d", "4d", "5d"});
  o->gathers = d.has("tile::gather4") || d.has("tile::scatter4");
  if (o->gathers) {
    if (dims != "2d" || o->coordinates.size() != 1 + kGatheredRows)
      d.fail("gather4 and scatter4 are .2d, with a column and four rows");
    return;
  }
  if (o->coordinates.size() != static_cast<std::size_t>(dims[0] - '0'))
    d.fail(fmt::format("{} coordinates with .{}", o->coordinates.size(), dims));
}

// The cache policy changes nothing here.
void decode_cache_policy(Decoder& d, int operand) {
  if (d.has("L2::cache_hint")) d.source(operand, 64);
}

// Behind the barrier: the CTA mask, then the policy.
void decode_load_tail(Decoder& d, int operand, BulkOperands* o) {
  const bool multicast = d.has("multicast::cluster");
  if (multicast && o->own_cta_only) d.fail("a .shared::cta destination has no multicast");
  if (multicast) o->mask = d.source(operand++, 16);
  decode_cache_policy(d, operand);
}

void decode_tensor_load(Decoder& d) {
  BulkOperands o;
  o.destination = d.address(0);
  decode_box(d, 1, &o);
  o.barrier = d.address(2);
  o.own_cta_only = d.has("shared::cta");
  o.peer_barrier = d.has("cta_group::2");
  decode_load_tail(d, 3, &o);
  d.emit(tensor_load).extra = d.attach(o);
}

void decode_tensor_store(Decoder& d) {
  BulkOperands o;
  decode_box(d, 0, &o);
  o.source = d.address(1);
  decode_cache_policy(d, 2);
  o.op = reduction_op(d.first_of({"add", "min", "max", "inc", "dec", "and", "or", "xor"}));
  d.emit(tensor_store).extra = d.attach(o);
}

void decode_bulk_load(Decoder& d) {
  BulkOperands o;
  o.destination = d.address(0);
  o.map = d.address(1);
  o.bytes = d.source(2, 32);
  o.barrier = d.address(3);
  o.own_cta_only = d.has("shared::cta");
  decode_load_tail(d, 4, &o);
  d.emit(bulk_load).extra = d.attach(o);
}

void decode_bulk_store(Decoder& d) {
  BulkOperands o;
  o.map = d.address(0);
  o.source = d.address(1);
  o.bytes = d.source(2, 32);
  decode_cache_policy(d, 3);
  if (d.has("cp_mask")) o.mask = d.source(d.count() - 1, 16);
  o.op = reduction_op(d.first_of({"add", "min", "max", "inc", "dec", "and", "or", "xor"}));
  if (o.op) {
    o.type =
        *reduction_type(d.first_of({"u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "b32", "b64"}));
    const bool narrow = o.type == ReductionType::kF16 || o.type == ReductionType::kBf16;
    if (!reduction_exists(*o.op, o.type) || d.has("noftz") != (narrow && *o.op == ReductionOp::kAdd))
      d.fail("PTX has no such reduction");
  }
  d.emit(bulk_store).extra = d.attach(o);
}

void decode_bulk_peer_copy(Decoder& d) {
  BulkOperands o;
  o.destination = d.address(0);
  o.source = d.address(1);
  o.bytes = d.source(2, 32);
  o.barrier = d.address(3);
  d.emit(bulk_peer_copy).extra = d.attach(o);
}

}  // namespace

void register_bulk(InstructionTable& table) {
  register_async_copy(table);
  register_async_store(table);
  table.add(fmt::format("cp.async.bulk.tensor .{} .(shared::cluster|shared::cta) .global "
                        " .(tile|tile::gather4)? .mbarrier::complete_tx::bytes .(multicast::cluster)? "
                        ".(cta_group::1|cta_group::2)? .(L2::cache_hint)?",
                        kDims),
            decode_tensor_load, {.needs = {{TargetNeed::kBlackwell, "cta_group::"}}});
  table.add(fmt::format("cp.async.bulk.tensor .{} .global.shared::cta .(tile|tile::scatter4)? .bulk_group "
                        ".(L2::cache_hint)?",
                        kDims),
            decode_tensor_store);
  table.add(
      fmt::format("cp.reduce.async.bulk.tensor .{} .global.shared::cta .(add|min|max|inc|dec|and|or|xor) "
                  ".(tile)? .bulk_group .(L2::cache_hint)?",
                  kDims),
      decode_tensor_store);
  table.add(
      fmt::format("cp.async.bulk.prefetch.tensor .{} .L2.global .(tile|tile::gather4)? .(L2::cache_hint)?",
                  kDims),
      [](Decoder& d) {
        BulkOperands o;
        decode_box(d, 0, &o);
        decode_cache_policy(d, 1);
        d.emit(tensor_prefetch).extra = d.attach(o);
      });
  table.add("prefetch.tensormap", [](Decoder& d) {
    BulkOperands o;
    o.map = d.address(0);
    d.emit(map_prefetch).extra = d.attach(o);
  });

  table.add(
      "cp.async.bulk .(shared::cluster|shared::cta) .global.mbarrier::complete_tx::bytes "
      ".(multicast::cluster)? .(L2::cache_hint)?",
      decode_bulk_load);
  table.add("cp.async.bulk.global.shared::cta.bulk_group .(L2::cache_hint)? .(cp_mask)?", decode_bulk_store);
  table.add(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group .(L2::cache_hint)? "
      ".(add|min|max|inc|dec|and|or|xor) .(noftz)? .(u32|s32|u64|s64|f16|bf16|f32|f64|b32|b64)",
      decode_bulk_store);
  table.add("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", decode_bulk_peer_copy);
  table.add_hint("cp.async.bulk.prefetch.L2.global .(L2::cache_hint)?");

  table.add("cp.async.bulk.commit_group", [](Decoder& d) { d.emit(commit_bulk_group); },
            {.synchronises = {{"bulk commit_group"}}});
  table.add("cp.async.bulk.wait_group .(read)?",
            [](Decoder& d) {
              const std::int64_t keep = d.immediate(0);
              if (keep < 0) d.fail("a negative number of groups");
              Instruction& in = d.emit(wait_bulk_group);
              in.immediate = keep;
              in.small[0] = d.has("read");
            },
            {.synchronises = {{"bulk wait_group", "", {.operand = 0, .only_up = true}}}});
}

}  // namespace jfa::simulator
