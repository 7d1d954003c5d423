#include <fmt/format.h>

#include <filesystem>
#include <string>
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
  if (fs::is_directory(folder)) return trace::check_writable("output", folder / "manifest.json");
  if (fs::exists(folder)) throw ConfigError("output", folder.string() + " is not a folder");
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

void write(const graphs::TargetCapture& capture, const graphs::Manifest& manifest, const fs::path& folder) {
  fs::create_directory(folder);
  for (std::size_t i = 0; i < capture.cache().captured().size(); ++i)
    trace::write_file_atomically(folder / capture.dot_name(i), capture.cache().dot(i));
  const fs::path path = folder / "manifest.json";
  trace::write_file_atomically(path, graphs::write_manifest(manifest));
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
