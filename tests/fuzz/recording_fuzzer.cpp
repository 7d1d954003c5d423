#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/error.hpp"
#include "sluice/trace/recording_json.hpp"

/// A text is refused with an Error, or it is a recording that can be written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  try {
    const trace::Recording recording = trace::read_recording({reinterpret_cast<const char*>(data), size});
    try {
      (void)trace::read_recording(trace::write_recording(recording));
    } catch (const Error&) {
      std::abort();
    }
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
