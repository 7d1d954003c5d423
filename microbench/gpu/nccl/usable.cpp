#include <chrono>
#include <exception>
#include <string>

#include "gpu/subjects.hpp"
#include "rank_threads.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"
#include "sluice/nccl/communicator.hpp"
#include "sluice/nccl/library.hpp"

namespace sluice::microbench {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr Duration kPatience = std::chrono::seconds(20);

}  // namespace

std::string why_no_nccl() {
  cuda::use_device(0);
  try {
    static_cast<void>(nccl::Library::get());
  } catch (const ConfigError& error) {
    return error.what();
  }
  try {
    const ncclUniqueId id = nccl::make_unique_id();
    test::on_each_rank(kRanks, [&](process::Bootstrap& bootstrap) {
      cuda::use_device(0);
      const nccl::Communicator communicator(id, {kRanks, bootstrap.rank(), "two ranks on one device"},
                                            kPatience);
    });
  } catch (const Error& error) {
    return std::string("two ranks cannot share the device (NCCL_MULTI_RANK_GPU_ENABLE=1 may help): ") +
           error.what();
  }
  return {};
}

}  // namespace sluice::microbench
