#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::nvtx {

/// What the probe wrote down while this lives. The first of a process attaches it, so it must come before the
/// first call of NVTX.
class ProbeCalls {
 public:
  ProbeCalls() : skipped_(file().size()) {}

  /// The calls so far.
  /// @throws std::runtime_error if there is no probe, which NVTX says nothing of
  [[nodiscard]] std::vector<nlohmann::json> all() const {
    std::ifstream lines(file().path);
    if (!lines) throw std::runtime_error("the probe has written nothing: is it " SLUICE_NVTX_PROBE "?");
    lines.seekg(static_cast<std::streamoff>(skipped_));
    std::vector<nlohmann::json> calls;
    for (std::string line; std::getline(lines, line);) calls.push_back(nlohmann::json::parse(line));
    return calls;
  }

  [[nodiscard]] std::vector<nlohmann::json> of(const std::string& call) const {
    std::vector<nlohmann::json> calls = all();
    std::erase_if(calls, [&](const nlohmann::json& each) { return each["call"] != call; });
    return calls;
  }

 private:
  /// One a process, since NVTX looks for a tool once.
  struct File {
    File() : path(std::filesystem::temp_directory_path() / ("nvtx_calls_" + std::to_string(getpid()))) {
      setenv("NVTX_INJECTION64_PATH", SLUICE_NVTX_PROBE, 1);
      setenv("NVTX_PROBE_OUT", path.c_str(), 1);
    }
    ~File() {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    [[nodiscard]] std::uintmax_t size() const {
      std::error_code missing;
      const std::uintmax_t size = std::filesystem::file_size(path, missing);
      return missing ? 0 : size;
    }

    const std::filesystem::path path;
  };

  static File& file() {
    static File file;
    return file;
  }

  std::uintmax_t skipped_;
};

}  // namespace sluice::nvtx
