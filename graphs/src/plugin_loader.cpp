#include "sluice/graphs/plugin_loader.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "sluice/error.hpp"

namespace sluice::graphs {
namespace {

ConfigError refusal(const std::string& path, const std::string& reason) {
  return {"plugin", path + " " + reason};
}

std::string loader_error() {
  const char* const text = dlerror();
  return text != nullptr ? text : "for no given reason";
}

std::string difference(const PluginAbi& plugin, const PluginAbi& host) {
  if (plugin.interface_version != host.interface_version) {
    return fmt::format(
        "is for version {} of the plug-in interface, and this program has version {}: build it with this "
        "program's headers",
        plugin.interface_version, host.interface_version);
  }
  if (plugin.cuda_version != host.cuda_version) {
    return fmt::format("was built with CUDA {}, and this program with CUDA {}: build both with the same",
                       plugin.cuda_version, host.cuda_version);
  }
  return "lays out its objects otherwise than this program: build it with this program's headers, and with "
         "a compiler and standard library that are compatible";
}

/// Of a file that is there: `dlopen` looks names without a folder up elsewhere.
std::filesystem::path whole_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none)
    throw refusal(path, "cannot be looked at: " + error.message());
  if (!std::filesystem::is_regular_file(status)) throw refusal(path, "is not a file");
  std::filesystem::path whole = std::filesystem::absolute(path, error);
  if (error) throw refusal(path, "cannot be looked at: " + error.message());
  return whole;
}

PluginEntry entry_of(const std::string& path) {
  void* const library = dlopen(whole_path(path).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw refusal(path, "cannot be loaded: " + loader_error());
  void* const symbol = dlsym(library, kPluginEntry);
  if (symbol == nullptr) {
    throw refusal(path, fmt::format("has no function {}: define it as extern \"C\", as "
                                    "sluice/graphs/plugin.hpp shows, and do not hide it",
                                    kPluginEntry));
  }
  return reinterpret_cast<PluginEntry>(symbol);
}

int call_entry(const std::string& path, PluginEntry entry, PluginCall& call) {
  try {
    return entry(&call);
  } catch (const std::exception& error) {
    throw refusal(path, fmt::format("throws out of {}: {}", kPluginEntry, error.what()));
  } catch (...) {
    throw refusal(path, fmt::format("throws out of {}", kPluginEntry));
  }
}

}  // namespace

std::vector<CaptureTarget> load_plugin(const std::string& path, const PluginArguments& arguments) {
  std::vector<CaptureTarget> targets;
  std::string error;
  PluginCall call;
  call.arguments = &arguments;
  call.targets = &targets;
  call.error = &error;
  const int answer = call_entry(path, entry_of(path), call);
  switch (static_cast<PluginAnswer>(answer)) {
    case PluginAnswer::GaveTargets:
      break;
    case PluginAnswer::IsOfAnotherAbi:
      throw refusal(path, difference(call.plugin, call.host));
    case PluginAnswer::Failed:
      throw refusal(path, "cannot make its targets: " + error);
    default:
      throw refusal(path, fmt::format("answers {}, which means nothing", answer));
  }
  if (targets.empty()) throw refusal(path, "has nothing to capture: it made no targets");
  return targets;
}

}  // namespace sluice::graphs
