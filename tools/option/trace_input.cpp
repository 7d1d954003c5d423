#include "option/trace_input.hpp"

#include <filesystem>
#include <system_error>

#include "option/input_file.hpp"
#include "sluice/error.hpp"
#include "sluice/trace/recording_json.hpp"

namespace sluice::tools {
TraceInput TraceInput::parse(const std::string& argument) {
  const std::size_t mark = argument.rfind('#');
  std::error_code ignored;
  if (mark == std::string::npos || std::filesystem::exists(argument, ignored)) return {argument, {}};
  return {argument.substr(0, mark), argument.substr(mark + 1)};
}

trace::Recording load_recording(const std::string& path) {
  const std::string bytes = read_file("file", path);
  try {
    return trace::read_recording(bytes);
  } catch (const ConfigError& error) {
    throw ConfigError(path, error.what());
  }
}

const trace::RecordedRun& select_run(const trace::Recording& recording, const TraceInput& input) {
  try {
    return trace::find_run(recording, input.method);
  } catch (const ConfigError& error) {
    throw ConfigError(input.path, error.what());
  }
}

double total_seconds(const trace::RecordedRun& run) {
  double total = 0;
  for (const trace::RecordedIteration& each : run.iterations)
    total += std::chrono::duration<double>(each.end - each.start).count();
  return total;
}

}  // namespace sluice::tools
