#include <string>
#include <vector>

#include "gpu/nccl_rows.hpp"
#include "gpu/subjects.hpp"

namespace sluice::microbench {
namespace {

constexpr const char* kReason = "built without NCCL 2.29 or later";

}  // namespace

std::string why_no_nccl() { return kReason; }

std::vector<Row> measure_nccl_agreement(const Effort& /*effort*/) { return agreement_not_run(kReason); }

std::vector<Row> measure_put_bandwidth(const Effort& effort) { return puts_not_run(effort, kReason); }

}  // namespace sluice::microbench
