#pragma once

#include <string>
#include <vector>

#include "gpu/payload_sizes.hpp"
#include "gpu/row.hpp"
#include "gpu/subjects.hpp"

namespace sluice::microbench {

inline const char* const kNcclAgreement = "NCCL all-reduce, two ranks on one device";
[[nodiscard]] inline std::string put_row_name(const Payload& payload) { return "NCCL put, " + payload.name; }

/// What the subjects report where NCCL cannot be used.
[[nodiscard]] inline std::vector<Row> agreement_not_run(const std::string& reason) {
  return {not_run(kNcclAgreement, "us", reason)};
}
[[nodiscard]] inline std::vector<Row> puts_not_run(const Effort& effort, const std::string& reason) {
  std::vector<Row> rows;
  for (const Payload& payload : payloads(effort, 1))
    rows.push_back(not_run(put_row_name(payload), "GB/s", reason));
  return rows;
}

}  // namespace sluice::microbench
