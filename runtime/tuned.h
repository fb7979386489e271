// Which tuning a call's kernels have: the caller's, the database's or the device's.
#pragma once

#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/kernels.h"

namespace jfa {

/// The kernels for the query if they are loaded; later they are found without a lock. Else nullptr.
const LoadedKernels* route_to_loaded(Device::Impl& device, const KernelQuery& query);

/// Compiles and loads what the query asks for. Of a call that takes its tuning from the database: all that it
/// has for the specialisation, so that no later call waits for it. A tuned kernel that is not to be had is a
/// warning, and the defaults take its place. Errors: of load_kernels().
Result<const LoadedKernels*> resolve(Device::Impl& device, const KernelQuery& query);

/// The same for a configuration, whose sizes are not known.
Status resolve_all(Device::Impl& device, const KernelSpec& spec, const Tuning* tuning);

/// What resolve_all() would load, which may be had from the cache or a compiler, or not.
std::vector<Tuning> tunings_of(const Device::Impl& device, const KernelSpec& spec, const Tuning* tuning);

/// What the device's records are filed under; of a simulated one its generation.
TunedDevice tuned_device(const Device::Impl& device);

/// The database that the environment names: JFA_TUNING_DB, or else those of the bundles in JFA_BUNDLES. What
/// cannot be used is left out with a warning.
void use_environment_tuning(Device::Impl& device);

/// Reads a database, a file or a directory, for this device. What cannot be read is a warning.
/// kUnavailable: there is no such thing. kInvalidArgument: a kernel is loaded already.
Status use_tuning_database(Device::Impl& device, const std::string& path);

/// What serves a call of that class on the device, in words.
TunedChoice explain_tuning(const Device::Impl& device, const ProblemClass& problem);

}  // namespace jfa
