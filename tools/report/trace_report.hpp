#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sluice/trace/recorded_run.hpp"
#include "sluice/trace/run_summary.hpp"
#include "sluice/trace/stage_time.hpp"

namespace sluice::tools {

/// @throws ConfigError naming `json` if a path was given that cannot be written
void check_json_path(const std::string& path);
/// Writes the results if a path was given, and prints it.
void write_json(const std::string& path, const nlohmann::json& results);

/// The parts in seconds.
[[nodiscard]] nlohmann::json parts_json(const trace::StageTime& time, const Pipeline& pipeline);

/// `gradients 3 -> 2 (12.3 ms)`; empty if the stage never waited.
[[nodiscard]] std::string longest_wait(const trace::StageTime& time, const Pipeline& pipeline);

/// The delays that were drawn for the messages of a run on emulated devices, from the settings of its
/// recording; empty where they do not tell.
[[nodiscard]] trace::MessageTime emulated_message_time(const trace::Recording& recording,
                                                       const trace::RecordedRun& run);

}  // namespace sluice::tools
