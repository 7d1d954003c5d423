#include <fmt/format.h>

#include <vector>

#include "gpu/subjects.hpp"
#include "sluice/agree/form.hpp"

namespace sluice::microbench {

std::vector<Row> measure_ucx_agreement(const Effort& /*effort*/) {
  std::vector<Row> rows;
  for (const agree::Form form : agree::kForms)
    rows.push_back(not_run(fmt::format("{}, over UCX", agree::name(form)), "us", "built without UCX"));
  return rows;
}

}  // namespace sluice::microbench
