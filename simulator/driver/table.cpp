// The table of function pointers, one for each simulated device of the process.
#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#include "simulator/driver/driver.h"
#include "simulator/driver/simulated_driver.h"

namespace jfa::simulator {
namespace {

// The API's functions carry no device, so that every device needs functions of its own: one instantiation a
// slot.
std::array<std::unique_ptr<SimulatedDriver>, SimulatedDriver::kMaxDevices> drivers;
std::array<DriverTable, SimulatedDriver::kMaxDevices> tables;
std::mutex drivers_mutex;
int driver_count = 0;

template <auto kMethod>
constexpr bool works_before_init() {
  const auto is = [](auto other) {
    if constexpr (std::is_same_v<decltype(other), decltype(kMethod)>) {
      return other == kMethod;
    } else {
      return false;
    }
  };
  return is(&SimulatedDriver::cuInit) || is(&SimulatedDriver::cuDriverGetVersion) ||
         is(&SimulatedDriver::cuGetErrorName) || is(&SimulatedDriver::cuGetErrorString) ||
         is(&SimulatedDriver::cuThreadExchangeStreamCaptureMode);
}

// Everything about a call but its slot, so that what is instantiated for each slot is a jump.
template <auto kMethod, class... Arguments>
[[gnu::noinline]] CUresult call_driver(int slot, Arguments... arguments) {
  SimulatedDriver& driver = *drivers[static_cast<std::size_t>(slot)];
  const std::lock_guard lock(driver.mutex());
  if (!works_before_init<kMethod>() && !driver.initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  // Nothing may be thrown through the C interface.
  try {
    return (driver.*kMethod)(arguments...);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

template <auto kMethod>
struct Call;

template <class... Arguments, CUresult (SimulatedDriver::*kMethod)(Arguments...)>
struct Call<kMethod> {
  template <int kSlot>
  static CUresult in_slot(Arguments... arguments) {
    return call_driver<kMethod>(kSlot, arguments...);
  }
};

template <int kSlot>
void fill_table(DriverTable& table) {
#define JFA_FILL(name) table.name = &Call<&SimulatedDriver::name>::in_slot<kSlot>;
  JFA_DRIVER_CALLS(JFA_FILL)
#undef JFA_FILL
}

template <int... kSlots>
void fill_table(int slot, std::integer_sequence<int, kSlots...>) {
  (void)((kSlots == slot && (fill_table<kSlots>(tables[kSlots]), true)) || ...);
}

// nullptr for a table that is none of ours.
SimulatedDriver* driver_of(const DriverTable* table) {
  const std::lock_guard lock(drivers_mutex);
  for (int slot = 0; slot < driver_count; ++slot) {
    const auto i = static_cast<std::size_t>(slot);
    if (table == &tables[i]) return drivers[i].get();
  }
  return nullptr;
}

}  // namespace

const DriverTable* open_simulated_driver(const std::string& name, std::string* error) {
  const std::lock_guard lock(drivers_mutex);
  const auto refuse = [&](const std::string& message) {
    if (error != nullptr) *error = message;
    return nullptr;
  };
  for (int slot = 0; slot < driver_count; ++slot) {
    const auto i = static_cast<std::size_t>(slot);
    if (drivers[i]->options().name == name) return &tables[i];
  }
  Result<DeviceOptions> options = parse_device_name(name);
  if (!options.ok()) return refuse(options.status().message());
  if (driver_count == SimulatedDriver::kMaxDevices) {
    return refuse("simulated device '" + name + "': the process has " +
                  std::to_string(SimulatedDriver::kMaxDevices) + " simulated devices already");
  }
  const int slot = driver_count++;
  drivers[static_cast<std::size_t>(slot)] = std::make_unique<SimulatedDriver>(*options, slot);
  fill_table(slot, std::make_integer_sequence<int, SimulatedDriver::kMaxDevices>());
  return &tables[static_cast<std::size_t>(slot)];
}

std::string last_report(const DriverTable* table) {
  SimulatedDriver* driver = driver_of(table);
  if (driver == nullptr) return {};
  const std::lock_guard lock(driver->mutex());
  return driver->last_report();
}

std::uint64_t warp_instructions(const DriverTable* table) {
  SimulatedDriver* driver = driver_of(table);
  if (driver == nullptr) return 0;
  const std::lock_guard lock(driver->mutex());
  return driver->warp_instructions();
}

bool timing::times_launches(const DriverTable* table) {
  const SimulatedDriver* driver = driver_of(table);
  return driver != nullptr && driver->options().timing;
}

std::vector<timing::TimedLaunch> timing::take_timed_launches(const DriverTable* table) {
  SimulatedDriver* driver = driver_of(table);
  if (driver == nullptr) return {};
  const std::lock_guard lock(driver->mutex());
  return driver->take_timed_launches();
}

double product_seconds(const DriverTable* table) {
  SimulatedDriver* driver = driver_of(table);
  if (driver == nullptr) return 0;
  const std::lock_guard lock(driver->mutex());
  return driver->product_seconds();
}

}  // namespace jfa::simulator
