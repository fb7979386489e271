#include "simulator/tensor_core/wgmma.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "simulator/machine/cpu_timer.h"
#include "simulator/tensor_core/mma_sparse.h"

namespace jfa::simulator {
namespace {

constexpr std::uint32_t kAllWarps = (1u << kWarpgroupWarps) - 1;
constexpr std::uint32_t kWarpRows = kWgmmaM / kWarpgroupWarps;

int quarter(const Warp& warp) { return warp.index() % kWarpgroupWarps; }

std::string name_of(const WgmmaInstruction& instruction) {
  const std::uint32_t step = kMmaStepBytes / element_bytes(instruction.a_type);
  return instruction.metadata ? fmt::format("wgmma.sp m64n{}k{}", instruction.n, 2 * step)
                              : fmt::format("wgmma m64n{}k{}", instruction.n, step);
}

// Buffers that every product uses in turn.
struct WgmmaScratch : Extension {
  explicit WgmmaScratch(Machine&) {}
  MmaOperands operands;
  std::vector<std::uint16_t> a, b;
  std::vector<std::uint16_t> b_second, gathered;  // sparse forms: what B has for a row of A
};

class WgmmaOperation : public AsyncOperation {
 public:
  WgmmaOperation(std::uint64_t queue, Cta& cta, int first_warp, std::shared_ptr<WgmmaProduct> product)
      : AsyncOperation(product->point, queue),
        cta_(cta),
        first_warp_(first_warp),
        product_(std::move(product)) {}

  bool advance(Machine& machine) override {
    const CpuTimer timer(machine.statistics().product_seconds);
    auto& scratch = machine.extension<WgmmaScratch>();
    const WgmmaInstruction& instruction = *product_->instruction;
    scratch.a.resize(kWgmmaM * kMmaK);
    scratch.b.resize(instruction.n * kMmaK);
    if (instruction.a.empty())
      product_->a.read(cta_, scratch.a.data());
    else
      read_registers(scratch.a);
    product_->b.read(cta_, scratch.b.data());
    if (instruction.negate_a) negate_elements(instruction.a_type, scratch.a);
    if (instruction.negate_b) negate_elements(instruction.b_type, scratch.b);
    if (instruction.metadata)
      multiply_sparse(scratch);
    else
      multiply(scratch);
    product_->done = true;
    return true;
  }

  std::string describe() const override {
    return fmt::format("{} of warpgroup {}", name_of(*product_->instruction), first_warp_ / kWarpgroupWarps);
  }

 private:
  Warp& warp_of_row(std::uint32_t m) const {
    return cta_.warp(first_warp_ + static_cast<int>(m / kWarpRows));
  }

  // Row m, columns 2 * pair and 2 * pair + 1, as the fragments lie: lane 4 * (m % 8) + pair % 4, and which of
  // that thread's pairs of registers.
  static std::uint32_t lane_of(std::uint32_t m, std::uint32_t pair) { return m % 8 * 4 + pair % 4; }
  static std::uint32_t pair_index(std::uint32_t m, std::uint32_t pair) {
    return pair / 4 * 2 + (m % kWarpRows) / 8;
  }

  void read_registers(std::vector<std::uint16_t>& elements) const {
    for (std::uint32_t m = 0; m < kWgmmaM; ++m) {
      Warp& warp = warp_of_row(m);
      for (std::uint32_t pair = 0; pair < kMmaK / 2; ++pair) {
        const Slot slot = product_->instruction->a[pair_index(m, pair)];
        const std::uint32_t bits = warp.lanes<std::uint32_t>(slot)[lane_of(m, pair)];
        elements[m * kMmaK + 2 * pair] = static_cast<std::uint16_t>(bits);
        elements[m * kMmaK + 2 * pair + 1] = static_cast<std::uint16_t>(bits >> 16);
      }
    }
  }

  MmaPrecision precision() const {
    const MmaElement type = product_->instruction->a_type;
    return type == MmaElement::kE4M3 || type == MmaElement::kE5M2 ? kHopperFp8Precision : MmaPrecision{};
  }

  void multiply(WgmmaScratch& scratch) const {
    const WgmmaInstruction& instruction = *product_->instruction;
    scratch.operands.load(instruction.a_type, instruction.b_type, scratch.a, scratch.b, precision());
    for (std::uint32_t m = 0; m < kWgmmaM; ++m) accumulate_row(scratch.operands, m, m);
  }

  void multiply_sparse(WgmmaScratch& scratch) const {
    const WgmmaInstruction& instruction = *product_->instruction;
    scratch.b_second.resize(scratch.b.size());
    product_->b_second.read(cta_, scratch.b_second.data());
    if (instruction.negate_b) negate_elements(instruction.b_type, scratch.b_second);
    const std::size_t elements = instruction.metadata->stride();
    for (std::uint32_t m = 0; m < kWgmmaM; ++m) {  // each row of A meets other elements of B
      gather_step(scratch.b, scratch.b_second, std::span(product_->positions).subspan(m * elements, elements),
                  element_bytes(instruction.b_type), scratch.gathered);
      scratch.operands.load(instruction.a_type, instruction.b_type,
                            std::span(scratch.a).subspan(m * kMmaK, kMmaK), scratch.gathered, precision());
      accumulate_row(scratch.operands, 0, m);
    }
  }

  // The product's row m, which is row `loaded` of the operands.
  void accumulate_row(const MmaOperands& operands, std::uint32_t loaded, std::uint32_t m) const {
    const WgmmaInstruction& instruction = *product_->instruction;
    Warp& warp = warp_of_row(m);
    const bool pairs = instruction.accumulator == MmaAccumulator::kF16;
    std::uint32_t row[256] = {};
    // Calls function(register word, column) for each word of the row: one column, or two of f16.
    const auto for_each_word = [&](auto function) {
      for (std::uint32_t pair = 0; pair < instruction.n / 2; ++pair) {
        const std::uint32_t lane = lane_of(m, pair), index = pair_index(m, pair);
        if (pairs) {
          function(warp.lanes<std::uint32_t>(instruction.d[index])[lane], 2 * pair);
        } else {
          function(warp.lanes<std::uint32_t>(instruction.d[2 * index])[lane], 2 * pair);
          function(warp.lanes<std::uint32_t>(instruction.d[2 * index + 1])[lane], 2 * pair + 1);
        }
      }
    };
    if (product_->accumulate) {
      for_each_word([&](std::uint32_t word, std::uint32_t column) {
        row[column] = pairs ? word & 0xffff : word;
        if (pairs) row[column + 1] = word >> 16;
      });
    }
    operands.accumulate_row(instruction.accumulator, static_cast<int>(loaded), row, instruction.saturate);
    for_each_word([&](std::uint32_t& word, std::uint32_t column) {
      word = pairs ? row[column] | row[column + 1] << 16 : row[column];
    });
  }

  Cta& cta_;
  int first_warp_;
  std::shared_ptr<WgmmaProduct> product_;
};

// The value that all lanes have.
std::uint64_t uniform_descriptor(Warp& warp, Slot slot, const char* name, const ProgramPoint& point) {
  const std::uint64_t* values = warp.lanes<std::uint64_t>(slot);
  for (int lane = 1; lane < kWarpSize; ++lane) {
    if (values[lane] == values[0]) continue;
    fail(ErrorKind::kInvalidOperand, point,
         fmt::format("the {} descriptor of wgmma must be the same in all lanes: lane 0 has {:#018x}, lane {} "
                     "has {:#018x}",
                     name, values[0], lane, values[lane]));
  }
  return values[0];
}

SharedOperand shared_operand(std::uint64_t bits, MatrixMajor major, std::uint32_t rows, MmaElement element,
                             const char* name, const ProgramPoint& point) {
  const Result<MatrixDescriptor> descriptor = decode_matrix_descriptor(bits, DescriptorVersion::kSm90);
  if (!descriptor.ok()) fail(ErrorKind::kDescriptor, point, descriptor.status().message());
  const SharedOperand operand{*descriptor, major, rows, element_bytes(element)};
  operand.check_row(name, point);
  return operand;
}

}  // namespace

Warpgroups::Warpgroups(Cta& cta) : cta_(cta) {
  const std::size_t warps = cta.warps().size();
  warps_.resize(warps);
  warpgroups_.resize((warps + kWarpgroupWarps - 1) / kWarpgroupWarps);
}

Warpgroups::ProductPtr Warpgroups::open_product(Warp& warp, const WgmmaInstruction& instruction,
                                                LaneMask active, const ProgramPoint& point) {
  const LaneMask scale = warp.predicate(instruction.scale_d) & active;
  if (scale != 0 && scale != active)
    fail(ErrorKind::kInvalidOperand, point,
         fmt::format("scale-d of wgmma must be the same in all lanes: it is true in {:#010x}", scale));
  const std::uint64_t a_bits =
      instruction.a.empty() ? uniform_descriptor(warp, instruction.a_descriptor, "A", point) : 0;
  const std::uint64_t b_bits = uniform_descriptor(warp, instruction.b_descriptor, "B", point);

  WarpState& own = state(warp);
  Warpgroup& group = warpgroups_[static_cast<std::size_t>(warp.index() / kWarpgroupWarps)];
  const auto position = static_cast<std::size_t>(own.issued - group.complete_issues);
  ++own.issued;
  if (position < group.open.size()) {
    const ProductPtr& product = group.open[position];
    const auto differ = [&](const std::string& what) {
      fail(ErrorKind::kDivergence, point,
           fmt::format("the warps of a warpgroup must issue the same wgmma: {}", what),
           fmt::format("the other was issued by {}", product->point.describe()));
    };
    if (product->instruction != &instruction) differ("these are different instructions");
    if (product->a_descriptor != a_bits)
      differ(fmt::format("A descriptors {:#018x} and {:#018x}", a_bits, product->a_descriptor));
    if (product->b_descriptor != b_bits)
      differ(fmt::format("B descriptors {:#018x} and {:#018x}", b_bits, product->b_descriptor));
    if (product->accumulate != (scale != 0)) differ("scale-d differs");
    return product;
  }
  auto product = std::make_shared<WgmmaProduct>();
  product->instruction = &instruction;
  product->point = point;
  product->sequence = own.issued;
  product->a_descriptor = a_bits;
  product->b_descriptor = b_bits;
  product->accumulate = scale != 0;
  if (instruction.a.empty())
    product->a = shared_operand(a_bits, instruction.a_major, kWgmmaM, instruction.a_type, "A", point);
  product->b = shared_operand(b_bits, instruction.b_major, instruction.n, instruction.b_type, "B", point);
  // All of B may be read from the first warp's issue on.
  product->b.begin(cta_, 0, instruction.n, "the B operand of wgmma", point, product->flights);
  if (instruction.metadata) {
    product->b_second = second_step(product->b, point);
    product->b_second.begin(cta_, 0, instruction.n, "the B operand of wgmma", point, product->flights);
    product->positions.resize(kWgmmaM * instruction.metadata->stride());
  }
  group.open.push_back(product);
  return product;
}

void Warpgroups::issue(Warp& warp, const WgmmaInstruction& instruction, LaneMask active,
                       const ProgramPoint& point) {
  const int index = warp.index() / kWarpgroupWarps;
  if (active != kAllLanes || warps_.size() < static_cast<std::size_t>((index + 1) * kWarpgroupWarps))
    fail(ErrorKind::kDivergence, point,
         fmt::format("wgmma needs a whole warpgroup: warps {} to {} with all lanes", index * kWarpgroupWarps,
                     (index + 1) * kWarpgroupWarps - 1));
  const ProductPtr product = open_product(warp, instruction, active, point);
  WarpState& own = state(warp);
  const std::uint32_t shape = instruction.n << 2 | static_cast<std::uint32_t>(instruction.accumulator);
  for (const auto& observer : warp.register_observers)
    observer->take({point, &instruction.watched_d, &instruction.watched_a, shape, product->sequence});
  // A warp's rows of A may be its own to write until it issues.
  const auto row = static_cast<std::uint32_t>(quarter(warp)) * kWarpRows;
  if (instruction.a.empty())
    product->a.begin(cta_, row, kWarpRows, "the A operand of wgmma", point, product->flights);
  // The ISA lets only accumulators and A in registers belong to the product until it is waited for; CUTLASS
  // loads the next metadata into the same registers before that.
  if (instruction.metadata) {
    const std::size_t elements = instruction.metadata->stride();
    instruction.metadata->read(
        warp, row, std::span(product->positions).subspan(row * elements, kWarpRows * elements), point);
  }
  own.uncommitted.push_back(product);
  product->issued |= 1u << quarter(warp);
  if (product->issued == kAllWarps) post(index, product);
}

void Warpgroups::post(int warpgroup, const ProductPtr& product) {
  Warpgroup& group = warpgroups_[static_cast<std::size_t>(warpgroup)];
  group.open.pop_front();  // each warp issues in order, so this was the oldest
  ++group.complete_issues;
  const char& queue = group.queues[product->instruction->d.front()];
  cta_.machine().post(std::make_unique<WgmmaOperation>(reinterpret_cast<std::uintptr_t>(&queue), cta_,
                                                       warpgroup * kWarpgroupWarps, product));
}

void Warpgroups::commit(Warp& warp, const ProgramPoint& point) {
  WarpState& own = state(warp);
  ++own.commits;
  for (const ProductPtr& product : own.uncommitted) {
    if (product->group == 0) product->group = own.commits;
    if (product->group != own.commits)
      fail(ErrorKind::kDivergence, point,
           fmt::format("a wgmma is in commit group {} of this warp, but in group {} of another warp of its "
                       "warpgroup",
                       own.commits, product->group),
           fmt::format("it was issued by {}", product->point.describe()));
  }
  own.groups.push_back(std::move(own.uncommitted));
  own.uncommitted.clear();
}

bool Warpgroups::complete(const Warp& warp, std::size_t pending) const {
  const auto& groups = state(warp).groups;
  for (std::size_t i = 0; i + pending < groups.size(); ++i)
    for (const ProductPtr& product : groups[i])
      if (!product->done) return false;
  return true;
}

void Warpgroups::observe(Warp& warp, std::size_t pending) {
  WarpState& own = state(warp);
  const int index = warp.index() / kWarpgroupWarps;
  Epoch event = warpgroups_[static_cast<std::size_t>(index)].event;
  if (event.strand == 0 && warp.clock != nullptr) {
    event.strand = cta_.cluster().order.add_strand(fmt::format("products of warpgroup {}", index));
    warpgroups_[static_cast<std::size_t>(index)].event = event;
  }
  std::uint64_t last = 0;
  while (own.groups.size() > pending) {
    for (const ProductPtr& product : own.groups.front()) {
      last = std::max(last, product->sequence);
      // A group is the warpgroup's: one warp has seen for all that the operands have been read.
      for (const FlightRef& flight : product->flights)
        flight.end({event.strand, static_cast<std::uint32_t>(product->sequence)});
      product->flights.clear();
    }
    own.groups.pop_front();
  }
  if (last == 0) return;
  for (const auto& observer : warp.register_observers) observer->release(last);
  event.tick = static_cast<std::uint32_t>(last);
  warp.acquire(warp.live(), event);
}

std::string Warpgroups::missing_warps(int warpgroup, const WgmmaProduct& product) const {
  std::string text;
  for (int i = 0; i < kWarpgroupWarps; ++i)
    if ((product.issued >> i & 1) == 0)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", warpgroup * kWarpgroupWarps + i);
  return text;
}

std::string Warpgroups::describe_pending(const Warp& warp, std::size_t pending) const {
  const auto& groups = state(warp).groups;
  std::size_t open = 0;
  std::string missing;
  for (std::size_t i = 0; i + pending < groups.size(); ++i)
    for (const ProductPtr& product : groups[i]) {
      if (product->done) continue;
      ++open;
      if (product->issued != kAllWarps && missing.empty())
        missing = fmt::format("; {} has not been issued by warps {}", name_of(*product->instruction),
                              missing_warps(warp.index() / kWarpgroupWarps, *product));
    }
  return fmt::format("{} products of {} wgmma groups{}", open, groups.size() - pending, missing);
}

void Warpgroups::on_exit() {
  if (!cta_.machine().checks()) return;
  for (std::size_t i = 0; i < warpgroups_.size(); ++i) {
    if (warpgroups_[i].open.empty()) continue;
    const WgmmaProduct& product = *warpgroups_[i].open.front();
    fail(ErrorKind::kDivergence, product.point,
         fmt::format("the CTA has exited, and warps {} of the warpgroup never issued this wgmma",
                     missing_warps(static_cast<int>(i), product)));
  }
  for (const WarpState& warp : warps_) {
    if (warp.uncommitted.empty() && warp.groups.empty()) continue;
    for (const auto& group : warp.groups)
      for (const ProductPtr& product : group)
        fail(ErrorKind::kInFlight, product->point, "the CTA has exited without waiting for this wgmma");
    for (const ProductPtr& product : warp.uncommitted)
      fail(ErrorKind::kInFlight, product->point, "the CTA has exited without committing this wgmma");
  }
}

Step run_watched(Warp& warp, const Instruction& instruction, LaneMask active) {
  const Entry& entry = warp.machine().entry();
  const RegisterWatch& watch = entry.watch;
  const RegisterWatch::Use& use =
      watch.uses[watch.use_of_pc[static_cast<std::size_t>(&instruction - entry.code.data())]];
  for (const auto& observer : warp.register_observers)
    observer->access(use.registers, warp.point(instruction));
  return use.handler(warp, instruction, active);
}

}  // namespace jfa::simulator
