#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sluice/cuda/slot_memory.hpp"
#include "sluice/cuda/stage.hpp"
#include "sluice/graphs/capture_target.hpp"
#include "sluice/host/stage.hpp"
#include "sluice/transport.hpp"

/// What a shared library offers to `sluice capture --plugin`: one function, which makes the chunks to be
/// captured.
///
///     std::vector<CaptureTarget> make_targets(const sluice::graphs::PluginArguments& arguments);
///
///     extern "C" int sluice_capture_targets(sluice::graphs::PluginCall* call) {
///       return sluice::graphs::answer(*call, make_targets);
///     }
namespace sluice::graphs {

/// Version of what crosses the border between a plug-in and the program that loads it: cuda::Stage,
/// CaptureTarget and all that they name. Raised when any of that changes.
inline constexpr std::uint32_t kPluginInterface = 1;

/// The function that a plug-in exports.
inline constexpr const char* kPluginEntry = "sluice_capture_targets";

/// Tells one set of sizes of the shared objects from another: they differ between standard libraries.
[[nodiscard]] constexpr std::uint64_t plugin_layout() noexcept {
  constexpr std::array<std::size_t, 12> sizes{sizeof(std::string),
                                              sizeof(std::vector<TensorShape>),
                                              sizeof(std::unique_ptr<cuda::Stage>),
                                              sizeof(CaptureTarget),
                                              sizeof(TensorShape),
                                              sizeof(cuda::SlotTensor),
                                              sizeof(cuda::SlotBuffers),
                                              sizeof(cuda::TaskBuffers),
                                              sizeof(cuda::DeviceSpan),
                                              sizeof(cuda::ChunkMemory),
                                              sizeof(host::TaskContext),
                                              sizeof(std::map<std::string, std::string>)};
  constexpr std::uint64_t prime = 0x100000001B3;
  std::uint64_t digest = 0xCBF29CE484222325;
  for (const std::size_t size : sizes) digest = (digest ^ size) * prime;
  return digest;
}

/// What one side of the border was built with. The layout of this is the same for ever.
struct PluginAbi {
  std::uint32_t interface_version = kPluginInterface;
  std::uint32_t cuda_version = CUDART_VERSION / 1000;  ///< 13
  std::uint64_t layout = plugin_layout();

  friend constexpr bool operator==(const PluginAbi&, const PluginAbi&) = default;
};

/// `name=value` of `--plugin-args`, by name.
using PluginArguments = std::map<std::string, std::string, std::less<>>;

/// What the plug-in's function is called with. The layout of this is the same for ever.
struct PluginCall {
  PluginAbi host;
  /// The plug-in's answer.
  PluginAbi plugin;
  /// Touched only if both sides are alike.
  const PluginArguments* arguments = nullptr;
  std::vector<CaptureTarget>* targets = nullptr;
  std::string* error = nullptr;
};

/// What the plug-in's function returns, as a number.
enum class PluginAnswer : int {
  GaveTargets = 0,
  IsOfAnotherAbi = 1,
  Failed = 2,  ///< and says why in `error`
};

using PluginEntry = int (*)(PluginCall*);

/// The whole of a plug-in's function: refuses a program of another ABI, and carries an exception over as
/// text.
/// @param make takes PluginArguments and returns targets
template <typename Make>
[[nodiscard]] int answer(PluginCall& call, const Make& make) noexcept {
  call.plugin = PluginAbi{};
  if (call.plugin != call.host) return static_cast<int>(PluginAnswer::IsOfAnotherAbi);
  try {
    *call.targets = make(*call.arguments);
    return static_cast<int>(PluginAnswer::GaveTargets);
  } catch (const std::exception& error) {
    *call.error = error.what();
  } catch (...) {
    *call.error = "an exception that is no std::exception";
  }
  return static_cast<int>(PluginAnswer::Failed);
}

}  // namespace sluice::graphs
