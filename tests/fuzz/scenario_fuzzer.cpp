#include <cstddef>
#include <cstdint>
#include <string_view>

#include "option/scenario_file.hpp"
#include "sluice/error.hpp"

/// A text is refused with an Error, or it is a scenario that passes its own validation.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  try {
    tools::parse_scenario({reinterpret_cast<const char*>(data), size}, "fuzzed").scenario.validate();
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
