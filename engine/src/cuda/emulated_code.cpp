#include "sluice/cuda/emulated_code.hpp"

#include <fmt/format.h>

#include <utility>

#include "sluice/error.hpp"

namespace sluice::cuda {
namespace {

constexpr std::uint32_t kMostThreads = 1024;

}  // namespace

EmulatedCode::EmulatedCode(host::TaskTime task_time, const Options& options)
    : task_time_(std::move(task_time)), options_(options) {
  if (options_.blocks == 0) throw ConfigError("blocks", "an emulated device has at least one");
  if (options_.threads == 0 || options_.threads > kMostThreads)
    throw ConfigError("threads",
                      fmt::format("{} given; a block has 1 to {}", options_.threads, kMostThreads));
}

}  // namespace sluice::cuda
