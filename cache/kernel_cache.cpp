#include "cache/kernel_cache.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "cache/background_queue.h"
#include "cache/disk_store.h"
#include "cache/image_memory.h"
#include "cache/observer.h"
#include "cache/slow_notice.h"

namespace jfa {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = CacheEvent::Kind;

double elapsed_ms(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string seconds(double milliseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", milliseconds / 1000);
  return text;
}

CacheOptions normalized(CacheOptions options) {
  constexpr std::int64_t kYear_ms = 365ll * 24 * 3600 * 1000;  // "for ever", with no overflow of the clock
  options.lock_wait_ms = std::clamp<std::int64_t>(options.lock_wait_ms, 0, kYear_ms);
  options.slow_compile_ms = std::clamp<std::int64_t>(options.slow_compile_ms, 0, kYear_ms);
  std::error_code error;
  if (!options.directory.empty()) {
    const auto path = std::filesystem::absolute(options.directory, error);
    if (!error) options.directory = path.string();
  }
  return options;
}

}  // namespace

class KernelCache::Impl {
 public:
  explicit Impl(CacheOptions given)
      : options(normalized(std::move(given))),
        observer(options),
        store(options, observer),
        memory(options.memory_max_bytes),
        background(std::max(1u, std::thread::hardware_concurrency() / 2)) {}

  // One production of one image; the others who want it wait for the future.
  struct Flight {
    std::promise<Result<SharedImage>> promise;
    std::shared_future<Result<SharedImage>> future = promise.get_future().share();
    std::thread::id leader = std::this_thread::get_id();
  };

  Result<SharedImage> get(const CompileRequest& request, const CompileFunction& compile);
  Result<SharedImage> join(const std::shared_ptr<Flight>& flight, const std::string& name);
  Result<SharedImage> produce(const CompileRequest& request, const Digest& key,
                              const CompileFunction& compile);
  Result<SharedImage> compile_and_publish(const CompileRequest& request, const Digest& key,
                                          const CompileFunction& compile);
  Result<KernelImage> call_compiler(const CompileRequest& request, const Digest& key,
                                    const CompileFunction& compile);
  Status refusal(const CompileRequest& request, const Digest& key);
  void report_miss(const CompileRequest& request, const Digest& key);

  const CacheOptions options;
  Observer observer;
  DiskStore store;

  std::mutex mutex;  // of the two below; never held while anything is read or compiled
  ImageMemory memory;
  std::unordered_map<Digest, std::shared_ptr<Flight>> flights;

  BackgroundQueue background;  // last: its threads use all of the above
};

Result<SharedImage> KernelCache::Impl::get(const CompileRequest& request, const CompileFunction& compile) {
  const Digest key = request_key(request);
  std::shared_ptr<Flight> flight;
  bool leads = false;
  SharedImage at_hand;
  {
    const std::lock_guard lock(mutex);
    at_hand = memory.get(key);
    if (at_hand == nullptr) {
      std::shared_ptr<Flight>& slot = flights[key];
      leads = slot == nullptr;
      if (leads) slot = std::make_shared<Flight>();
      flight = slot;
    }
  }
  if (at_hand != nullptr) {
    store.note_use(key, *at_hand);
    observer.count(&CacheStats::memory_hits);
    observer.tell({Kind::kHit, key.hex(), request.name, "memory", {}});
    return at_hand;
  }
  if (!leads) return join(flight, request.name);

  Result<SharedImage> result = Status::internal("nothing was produced");
  try {
    result = produce(request, key, compile);
  } catch (const std::exception& error) {
    // The others must not wait for ever, nor the key be dead afterwards.
    result = Status::internal("'" + request.name + "': " + error.what());
  }
  {
    // The image is at hand before the flight is over, so nobody can start another one in between; a failure
    // leaves nothing behind, so the next call tries again.
    const std::lock_guard lock(mutex);
    if (result.ok()) memory.put(key, *result);
    flights.erase(key);
  }
  flight->promise.set_value(result);
  return result;
}

Result<SharedImage> KernelCache::Impl::join(const std::shared_ptr<Flight>& flight, const std::string& name) {
  if (flight->leader == std::this_thread::get_id()) {
    return Status::internal("'" + name + "': its compilation asks the cache for itself");
  }
  observer.count(&CacheStats::shared);
  return flight->future.get();
}

Result<SharedImage> KernelCache::Impl::produce(const CompileRequest& request, const Digest& key,
                                               const CompileFunction& compile) {
  if (SharedImage image = store.find(key, request.name)) return image;
  if (options.compile == CompilePolicy::kNever) {
    (void)store.look_again(key, request.name);  // reports a damaged entry
    return refusal(request, key);
  }
  // Before the lock: whoever would be refused should not make others wait.
  if (const Status status = check_self_contained(request); !status.ok()) return status;
  auto result = compile_and_publish(request, key, compile);
  store.trim_if_due();
  return result;
}

Result<SharedImage> KernelCache::Impl::compile_and_publish(const CompileRequest& request, const Digest& key,
                                                           const CompileFunction& compile) {
  const std::unique_ptr<FileLock> lock = store.wait_for_lock(key, request.name);
  // Between the first look and the lock, the process that held it may have published.
  if (SharedImage image = store.look_again(key, request.name)) return image;
  report_miss(request, key);

  const auto start = Clock::now();
  auto compiled = call_compiler(request, key, compile);
  const double spent_ms = elapsed_ms(start);
  if (!compiled.ok()) return compiled.status();

  KernelImage& image = *compiled;
  if (image.name.empty()) image.name = request.name;
  if (image.compiler.empty()) image.compiler = options.compiler;
  if (image.compile_ms == 0) image.compile_ms = spent_ms;
  // What was compiled is what is used: whether the file can be seen, by us or anybody, does not matter.
  const std::string path = store.publish(request, key, image);
  if (spent_ms > static_cast<double>(options.slow_compile_ms)) {
    observer.log(LogLevel::kNotice,
                 "compiled " + request.name + " in " + seconds(spent_ms) +
                     (path.empty() ? ", not cached on disk" : ", cached in " + store.state_directory()));
  }
  return std::make_shared<const KernelImage>(std::move(image));
}

Result<KernelImage> KernelCache::Impl::call_compiler(const CompileRequest& request, const Digest& key,
                                                     const CompileFunction& compile) {
  const auto start = Clock::now();
  observer.count(&CacheStats::compiles);
  observer.tell({Kind::kCompileStart, key.hex(), request.name, {}, {}});
  Result<KernelImage> compiled = Status::internal("not compiled");
  {
    const SlowNotice notice(std::chrono::milliseconds(options.slow_compile_ms), [&] {
      observer.tell({Kind::kCompileSlow, key.hex(), request.name, {}, {}, elapsed_ms(start)});
      observer.log(LogLevel::kNotice, "still compiling " + request.name + " after " +
                                          seconds(elapsed_ms(start)) + ": no cached kernel had request " +
                                          key.hex().substr(0, 16));
    });
    try {
      compiled = compile();
    } catch (const Error& error) {
      compiled = error.status();
    } catch (const std::exception& error) {
      compiled = Status::internal("compiling '" + request.name + "': " + error.what());
    }
  }
  if (compiled.ok() && compiled->cubin.empty() && compiled->ptx.empty()) {
    compiled = Status(ErrorKind::kCompile, "compiling '" + request.name + "' gave neither cubin nor PTX");
  }
  if (compiled.ok() && compiled->target.empty()) compiled->target = request.target;
  if (compiled.ok() && compiled->target != request.target) {
    compiled = Status(ErrorKind::kCompile, "compiling '" + request.name + "' gave an image for '" +
                                               compiled->target + "' instead of '" + request.target + "'");
  }
  const double spent_ms = elapsed_ms(start);
  observer.add_compile_ms(spent_ms);
  if (!compiled.ok()) observer.count(&CacheStats::compile_failures);
  observer.tell({Kind::kCompileEnd, key.hex(), request.name, {}, compiled.status().message(), spent_ms});
  return compiled;
}

// The reasons take a look at everything that is stored: only for those who hear them.
void KernelCache::Impl::report_miss(const CompileRequest& request, const Digest& key) {
  constexpr std::size_t kMostReasons = 16;
  observer.count(&CacheStats::misses);
  std::string reasons;
  if (observer.logs(LogLevel::kInfo)) {
    std::vector<std::string> lines = store.places(key);
    for (std::string& line : store.relatives(request)) lines.push_back(std::move(line));
    for (std::size_t i = 0; i < std::min(lines.size(), kMostReasons); ++i)
      reasons += (i == 0 ? "" : "; ") + lines[i];
    if (lines.size() > kMostReasons)
      reasons += "; and " + std::to_string(lines.size() - kMostReasons) + " more";
  }
  observer.tell({Kind::kMiss, key.hex(), request.name, {}, reasons});
}

Status KernelCache::Impl::refusal(const CompileRequest& request, const Digest& key) {
  report_miss(request, key);
  std::string message = "no cached kernel for '" + request.name + "' (target " + request.target +
                        ", request " + key.hex().substr(0, 16) +
                        ") and JFA_COMPILE=never forbids to compile one";
  if (!request.precompile_command.empty()) message += "; make it with: " + request.precompile_command;
  std::string detail;
  for (const std::string& line : store.places(key)) detail += line + "\n";
  for (const std::string& line : store.relatives(request)) detail += line + "\n";
  return Status(ErrorKind::kUnavailable, std::move(message), std::move(detail));
}

KernelCache::KernelCache(CacheOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
KernelCache::~KernelCache() = default;

Result<SharedImage> KernelCache::get_or_compile(const CompileRequest& request,
                                                const CompileFunction& compile) {
  return impl_->get(request, compile);
}

SharedImage KernelCache::find(const CompileRequest& request) {
  const Digest key = request_key(request);
  SharedImage image;
  {
    const std::lock_guard lock(impl_->mutex);
    image = impl_->memory.get(key);
  }
  if (image != nullptr) {
    impl_->store.note_use(key, *image);
    return image;
  }
  image = impl_->store.find(key, request.name);
  if (image != nullptr) {
    const std::lock_guard lock(impl_->mutex);
    impl_->memory.put(key, image);
  }
  return image;
}

void KernelCache::prepare(CompileRequest request, CompileFunction compile) {
  impl_->background.add([impl = impl_.get(), request = std::move(request), compile = std::move(compile)] {
    (void)impl->get(request, compile);  // the call that needs the kernel reports the error
  });
}

void KernelCache::discard(const CompileRequest& request, const KernelImage& image, std::string_view reason) {
  const Digest key = request_key(request);
  {
    const std::lock_guard lock(impl_->mutex);
    // Another thread may have found a better one by now.
    if (impl_->memory.get(key).get() == &image) impl_->memory.erase(key);
  }
  impl_->store.discard(key, request.name, image, reason);
}

CacheStats KernelCache::stats() const { return impl_->observer.stats(); }
KernelCache::State KernelCache::state() { return impl_->store.state(); }
const CacheOptions& KernelCache::options() const { return impl_->options; }

std::vector<std::string> KernelCache::why(const CompileRequest& request) {
  std::vector<std::string> lines;
  const Digest key = request_key(request);
  {
    const std::lock_guard lock(impl_->mutex);
    lines.push_back(impl_->memory.get(key) != nullptr ? "memory: found" : "memory: not there");
  }
  for (std::string& line : impl_->store.places(key)) lines.push_back(std::move(line));
  for (std::string& line : impl_->store.relatives(request)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace jfa
