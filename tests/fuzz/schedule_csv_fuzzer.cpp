#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/error.hpp"
#include "sluice/schedule_csv.hpp"

/// A text is refused with an Error, or read; what is read is validated, and says the same when written and
/// read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  try {
    const ScheduleFile file = parse_schedule_csv({reinterpret_cast<const char*>(data), size}, "fuzzed");
    const ScheduleFile again = parse_schedule_csv(to_csv(file.schedule), "again");
    if (again.schedule.stages() != file.schedule.stages()) std::abort();
    for (StageId stage = 0; stage < file.schedule.stages(); ++stage) {
      const auto first = file.schedule.order(stage);
      const auto second = again.schedule.order(stage);
      if (!std::equal(first.begin(), first.end(), second.begin(), second.end())) std::abort();
    }
    file.schedule.validate(file.pipeline());
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
