#include <fmt/format.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "capture/capture_options.hpp"
#include "capture/script_targets.hpp"
#include "option/units.hpp"
#include "report/capture_table.hpp"
#include "report/progress_bar.hpp"
#include "sluice/cuda/device.hpp"
#include "sluice/error.hpp"
#include "sluice/graphs/plugin_loader.hpp"
#include "sluice/graphs/target_capture.hpp"
#include "sluice/trace/output_file.hpp"

#if SLUICE_HAVE_NVTX
#include "sluice/nvtx/stream_name.hpp"
#endif

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifestName = "manifest.json";

graphs::PluginArguments plugin_arguments(const std::vector<std::string>& given) {
  graphs::PluginArguments arguments;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw ConfigError("plugin-args", in_quotes(text) + " is not of the form name=value");
    const std::string name = text.substr(0, equals);
    if (!arguments.emplace(name, text.substr(equals + 1)).second)
      throw ConfigError("plugin-args", in_quotes(name) + " is given twice");
  }
  return arguments;
}

/// Before anything is captured: that the results can be written to it.
void check_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::none)
    throw ConfigError("output", folder.string() + ": " + error.message());
  if (fs::is_directory(status)) return trace::check_writable("output", folder / kManifestName);
  if (fs::exists(status)) throw ConfigError("output", folder.string() + " is not a folder");
  trace::check_writable("output", folder);
}

std::vector<graphs::CaptureTarget> targets_of(const CaptureOptions& options) {
  if (options.plugin.empty()) return script_targets(options);
  return graphs::load_plugin(options.plugin, plugin_arguments(options.plugin_arguments));
}

void run(graphs::TargetCapture& capture) {
  const std::uint64_t all = capture.cache().tasks().size();
  ProgressBar progress("captured", all);
  capture.run([&](std::uint32_t done, std::uint32_t) {
    const graphs::CaptureKey& last = capture.cache().captured().back().key;
    progress.show(done, fmt::format("{} in slot {}", letter(last.pass), last.slot));
  });
}

/// A DOT file for each graph.
/// @return their names
std::set<std::string> write_drawings(const graphs::TargetCapture& capture, const fs::path& folder) {
  const std::size_t all = capture.cache().captured().size();
  ProgressBar progress("drew", all);
  std::set<std::string> names;
  for (std::size_t i = 0; i < all; ++i) {
    const std::string name = capture.dot_name(i);
    trace::write_file_atomically(folder / name, capture.cache().dot(i));
    names.insert(name);
    progress.show(i + 1, name);
  }
  return names;
}

/// Of an earlier capture into the same folder, which had other chunks, passes or slots.
void remove_stale_drawings(const fs::path& folder, const std::set<std::string>& drawings) {
  const std::regex drawing("chunk[0-9]+_(F|B|B_whole|W)_slot[0-9]+\\.dot");
  std::vector<fs::path> stale;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!std::regex_match(name, drawing) || drawings.contains(name)) continue;
    std::error_code gone;
    if (fs::is_regular_file(entry->symlink_status(gone))) stale.push_back(entry->path());
  }
  if (error) throw Error(fmt::format("cannot list {}: {}", folder.string(), error.message()));
  for (const fs::path& path : stale) {
    fs::remove(path, error);
    if (error) throw Error(fmt::format("cannot remove {}: {}", path.string(), error.message()));
  }
}

void write(const graphs::TargetCapture& capture, const graphs::Manifest& manifest, const fs::path& folder) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) throw Error(fmt::format("cannot make {}: {}", folder.string(), error.message()));
  const std::set<std::string> drawings = write_drawings(capture, folder);
  const fs::path path = folder / kManifestName;
  trace::write_file_atomically(path, graphs::write_manifest(manifest));
  remove_stale_drawings(folder, drawings);
  fmt::print("wrote {} and {} DOT files beside it\n", path.string(), manifest.tasks.size());
}

}  // namespace

void capture_chunks(const CaptureOptions& options) {
  const fs::path folder(options.folder);
  check_folder(folder);
  if (options.plugin.empty()) expect_script_support();
  const cuda::DeviceInfo device = cuda::use_device(options.device);
  graphs::GraphCache::Options cache;
  cache.warm_ups = options.warm_ups;
  cache.tolerance = options.tolerance;
  graphs::TargetCapture capture(targets_of(options), options.slots.value(), cache);
#if SLUICE_HAVE_NVTX
  nvtx::name_stream(capture.cache().stream(), "sluice capture");
#endif
  run(capture);
  const graphs::Manifest manifest = capture.manifest(device.name);
  fmt::print("{}", capture_table(manifest, capture.targets()));
  write(capture, manifest, folder);
}

}  // namespace sluice::tools
