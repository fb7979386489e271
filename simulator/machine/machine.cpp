#include "simulator/machine/machine.h"

#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <cstring>

#include "simulator/machine/scheduler.h"

namespace jfa::simulator {

int detail::next_extension_id() {
  static std::atomic<int> count{0};
  return count++;
}

// --- Machine

namespace {

constexpr std::uint32_t kRegisterPoison = 0xffffdead;  // a NaN, and no address

std::vector<std::byte> make_register_image(const Entry& entry) {
  std::vector<std::byte> image(entry.register_file_bytes);
  for (std::size_t i = 0; i + 4 <= image.size(); i += 4) std::memcpy(image.data() + i, &kRegisterPoison, 4);
  for (const Slot slot : entry.predicates) std::memset(image.data() + slot, 0, 4);
  for (const ConstantSlot& c : entry.constants) {
    const std::size_t bytes = c.bits == 64 ? 8 : 4;
    const int copies = c.bits == 1 ? 1 : kWarpSize;
    for (int i = 0; i < copies; ++i)
      std::memcpy(image.data() + c.slot + static_cast<std::size_t>(i) * bytes, &c.value, bytes);
  }
  return image;
}

}  // namespace

Machine::Machine(const Module& module, const Entry& entry, const LaunchConfig& config, DeviceMemory& memory)
    : module_(module),
      entry_(entry),
      config_(config),
      memory_(memory),
      register_image_(make_register_image(entry)) {
  for (int i = 0; i < config.options.sms; ++i) sms_.push_back(std::make_unique<Sm>(*this, i));
  scheduler_ = std::make_unique<Scheduler>(*this);
}

Machine::~Machine() = default;

void Machine::run() { scheduler_->run(); }

std::uint64_t Machine::post(std::unique_ptr<AsyncOperation> operation) {
  return scheduler_->post(std::move(operation));
}

std::optional<Dim3> Machine::cancel_next_cluster() { return scheduler_->cancel_next_cluster(); }

bool Machine::perhaps(std::uint32_t one_in) { return scheduler_->perhaps(one_in); }

SharedPlace Machine::shared_place(const Cta& cta, std::uint32_t address, const ProgramPoint& point) const {
  const std::uint32_t rank = address >> kSharedRankShift;
  const std::uint32_t offset = address & kSharedOffsetMask;
  Cta* target = cta.cluster().cta(rank);
  if (target == nullptr)
    fail_at(ErrorKind::kOutOfBounds, point, address,
            fmt::format("shared address {:#x} names CTA {} of a cluster of {}", address, rank,
                        cta.cluster().size()));
  if (target->exited())
    fail_at(ErrorKind::kOutOfBounds, point, address,
            fmt::format("shared address {:#x} belongs to CTA {} of the cluster, which has exited", address,
                        rank));
  return {target, offset};
}

SharedPlace Machine::shared_place_any(const Cta& cta, std::uint64_t address, bool is_64_bit,
                                      const ProgramPoint& point) const {
  if (is_64_bit && in_window(address, kSharedWindow)) address -= kSharedWindow;
  if (address >> 32 != 0)
    fail_at(ErrorKind::kOutOfBounds, point, address, fmt::format("{:#x} is no shared address", address));
  return shared_place(cta, static_cast<std::uint32_t>(address), point);
}

const std::byte* Machine::read_generic(std::uint64_t address, std::uint64_t bytes, std::uint64_t alignment,
                                       const ProgramPoint& point) const {
  if (!in_window(address, kParamWindow)) return memory_.access(address, bytes, alignment, false, point);
  const std::uint64_t offset = address - kParamWindow;
  if (offset + bytes > config_.parameters.size())
    fail_at(ErrorKind::kOutOfBounds, point, address,
            fmt::format("read of {} bytes at parameter offset {}: there are {}", bytes, offset,
                        config_.parameters.size()));
  if ((offset & (alignment - 1)) != 0)
    fail_at(ErrorKind::kMisaligned, point, address,
            fmt::format("parameter offset {} is not aligned to {}", offset, alignment));
  return config_.parameters.data() + offset;
}

// --- Cta

namespace {

std::uint32_t dynamic_offset(const Entry& entry, const RunOptions& options) {
  const std::uint32_t end = kReservedSharedBytes + entry.static_shared_bytes;
  const std::uint32_t alignment = std::max(entry.dynamic_alignment, options.dynamic_shared_alignment);
  std::uint32_t offset = (end + alignment - 1) / alignment * alignment;
  // No better aligned than declared, so that a kernel cannot rely on luck.
  if (alignment < 1024 && (offset / alignment & 1) == 0) offset += alignment;
  return offset;
}

}  // namespace

Cta::Cta(Machine& machine, Sm& sm, Cluster& cluster, std::uint32_t rank, Dim3 index)
    : machine_(machine),
      sm_(sm),
      cluster_(cluster),
      rank_(rank),
      index_(index),
      threads_(static_cast<int>(machine.config().block.count())),
      dynamic_shared_offset_(dynamic_offset(machine.entry(), machine.config().options)),
      shared_(dynamic_shared_offset_ + machine.config().dynamic_shared_bytes, machine.checks()),
      live_threads_(threads_) {
  const std::uint32_t end = kReservedSharedBytes + machine.entry().static_shared_bytes;
  shared_.set_flags(end, dynamic_shared_offset_ - end, SharedMemory::kPadding);
  cluster.ctas.push_back(this);
  for (Observer* observer : machine.observers())
    if (auto watch = observer->add_cta(*this)) shared_.observe(std::move(watch));
}

// Once the whole cluster has its CTAs: special registers tell of it.
void Cta::start() {
  for (int first = 0; first < threads_; first += kWarpSize)
    warps_.push_back(std::make_unique<Warp>(*this, first / kWarpSize, threads_ - first));
  if (!machine_.checks() || cluster_.size() == 1) return;
  started_ = {cluster_.order.add_strand(fmt::format("the start of CTA rank {}", rank_)), 1};
  for (auto& warp : warps_) warp->acquire(warp->live(), started_);
}

Cta::~Cta() = default;

std::string Cta::shared_symbol(std::uint32_t offset) const {
  const auto with_distance = [](const std::string& name, std::uint32_t distance) {
    return distance == 0 ? name : fmt::format("{}+{}", name, distance);
  };
  if (offset >= dynamic_shared_offset_)
    return offset < shared_.size() ? with_distance("dynamic", offset - dynamic_shared_offset_)
                                   : std::string();
  for (const Parameter& v : machine_.entry().shared_variables)
    if (offset - kReservedSharedBytes - v.offset < v.size_bytes)
      return with_distance(v.name, offset - kReservedSharedBytes - v.offset);
  return {};
}

int Cluster::live_threads() const {
  int count = 0;
  for (const Cta* cta : ctas) count += cta->live_threads();
  return count;
}

void Cta::note_exit(Warp& warp, LaneMask lanes) {
  live_threads_ -= std::popcount(lanes);
  if (!machine_.config().options.exit_races) warp.release(lanes, cluster_.barrier_arrivals);
  if (warp.cluster_round == cluster_.barrier_round)
    cluster_.barrier_arrived -= std::popcount(warp.cluster_arrived & lanes);
  if (live_threads_ == 0) exited_ = true;
  settle_barriers();
  if (exited_) machine_.scheduler_->cta_exited(*this);
}

void Cta::settle_barriers() {
  for (NamedBarrier& b : barriers) {
    const std::uint32_t expected = b.expected == 0 ? static_cast<std::uint32_t>(live_threads_) : b.expected;
    if (!b.open || b.arrived < expected) continue;
    b.result_and = b.reduction_and, b.result_or = b.reduction_or, b.result_count = b.reduction_count;
    b.reduction_and = 1, b.reduction_or = 0, b.reduction_count = 0;
    b.open = false;
    b.arrived = 0;
    b.clock.join(b.arrivals);
    b.arrivals.clear();
    ++b.round;
  }
  if (cluster_.barrier_arrived > 0 && cluster_.barrier_arrived >= cluster_.live_threads()) {
    cluster_.barrier_arrived = 0;
    cluster_.barrier_clock.join(cluster_.barrier_arrivals);
    cluster_.barrier_arrivals.clear();
    ++cluster_.barrier_round;
  }
}

// --- Warp: its birth

Warp::Warp(Cta& cta, int index, int threads) : cta_(cta), index_(index) {
  live_ = threads >= kWarpSize ? kAllLanes : (1u << threads) - 1;
  const std::vector<std::byte>& image = cta.machine().register_image_;
  constexpr std::size_t kAlignment = 64;
  storage_.reset(new std::byte[image.size() + kAlignment]);
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.get());
  registers_ = storage_.get() + (kAlignment - address % kAlignment) % kAlignment;
  if (!image.empty()) std::memcpy(registers_, image.data(), image.size());
  local_bytes_ = cta.machine().entry().local_bytes;
  if (local_bytes_ != 0) local_.reset(new std::byte[std::size_t{local_bytes_} * kWarpSize]());
  cluster_round = ~std::uint64_t{0};
  if (cta.machine().checks()) clock = &cta.cluster().order.add_warp(cta, index);
  if (!cta.machine().entry().watch.names.empty())
    for (Observer* observer : cta.machine().observers())
      if (auto watch = observer->add_warp(*this)) register_observers.push_back(std::move(watch));
  fill_specials();
  splits.emplace_back();
  splits[0].mask = live_;
}

namespace {

std::uint32_t special_value(const Warp& warp, SpecialRegister which, int lane) {
  using S = SpecialRegister;
  const Cta& cta = warp.cta();
  const LaunchConfig& config = cta.machine().config();
  const Dim3& block = config.block;
  const Dim3& cluster = config.cluster;
  const auto thread = static_cast<std::uint32_t>(warp.thread(lane));
  const std::uint32_t bit = 1u << lane;
  switch (which) {
    case S::kTidX:
      return thread % block.x;
    case S::kTidY:
      return thread / block.x % block.y;
    case S::kTidZ:
      return thread / block.x / block.y;
    case S::kNtidX:
      return block.x;
    case S::kNtidY:
      return block.y;
    case S::kNtidZ:
      return block.z;
    case S::kCtaidX:
      return cta.index().x;
    case S::kCtaidY:
      return cta.index().y;
    case S::kCtaidZ:
      return cta.index().z;
    case S::kNctaidX:
      return config.grid.x;
    case S::kNctaidY:
      return config.grid.y;
    case S::kNctaidZ:
      return config.grid.z;
    case S::kLaneid:
      return static_cast<std::uint32_t>(lane);
    case S::kWarpid:
      return static_cast<std::uint32_t>(warp.index());
    case S::kNwarpid:
      return static_cast<std::uint32_t>((cta.threads() + kWarpSize - 1) / kWarpSize);
    case S::kSmid:
      return static_cast<std::uint32_t>(cta.sm().index());
    case S::kNsmid:
      return static_cast<std::uint32_t>(config.options.sms);
    case S::kGridid:
      return 1;
    case S::kLanemaskEq:
      return bit;
    case S::kLanemaskLe:
      return bit | (bit - 1);
    case S::kLanemaskLt:
      return bit - 1;
    case S::kLanemaskGe:
      return ~(bit - 1);
    case S::kLanemaskGt:
      return ~(bit | (bit - 1));
    case S::kClusteridX:
      return cta.index().x / cluster.x;
    case S::kClusteridY:
      return cta.index().y / cluster.y;
    case S::kClusteridZ:
      return cta.index().z / cluster.z;
    case S::kNclusteridX:
      return config.grid.x / cluster.x;
    case S::kNclusteridY:
      return config.grid.y / cluster.y;
    case S::kNclusteridZ:
      return config.grid.z / cluster.z;
    case S::kClusterCtaidX:
      return cta.index().x % cluster.x;
    case S::kClusterCtaidY:
      return cta.index().y % cluster.y;
    case S::kClusterCtaidZ:
      return cta.index().z % cluster.z;
    case S::kClusterNctaidX:
      return cluster.x;
    case S::kClusterNctaidY:
      return cluster.y;
    case S::kClusterNctaidZ:
      return cluster.z;
    case S::kClusterCtarank:
      return cta.rank();
    case S::kClusterNctarank:
      return static_cast<std::uint32_t>(cluster.count());
    case S::kIsExplicitCluster:
      return cluster.count() > 1 ? 1 : 0;
    case S::kDynamicSmemSize:
      return config.dynamic_shared_bytes;
    case S::kTotalSmemSize:
      return cta.shared().size();
  }
  return 0;
}

}  // namespace

void Warp::fill_specials() {
  const Entry& entry = cta_.machine().entry();
  for (const SpecialSlot& s : entry.specials)
    for (int lane = 0; lane < kWarpSize; ++lane)
      lanes<std::uint32_t>(s.slot)[lane] = special_value(*this, s.which, lane);
  for (const SharedAddressSlot& s : entry.shared_addresses) {
    const std::uint32_t base = s.dynamic ? cta_.dynamic_shared_offset() : kReservedSharedBytes;
    const std::uint32_t address = base + s.offset + (cta_.rank() << kSharedRankShift);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if (s.bits == 64)
        lanes<std::uint64_t>(s.slot)[lane] = address;
      else
        lanes<std::uint32_t>(s.slot)[lane] = address;
    }
  }
}

}  // namespace jfa::simulator
