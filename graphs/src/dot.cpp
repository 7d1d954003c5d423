#include "dot.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "sluice/cuda/cuda_error.hpp"
#include "sluice/error.hpp"

namespace sluice::graphs {
namespace {

/// An empty file that is removed with this.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (error) throw Error("no temporary file for a graph: no folder for it: " + error.message());
    path_ = (folder / "sluice-graph-XXXXXX").string();
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) {
      throw Error("no temporary file for a graph: " + path_ + ": " +
                  std::error_code(errno, std::generic_category()).message());
    }
    close(descriptor);
  }
  ~TemporaryFile() {
    std::error_code unused;
    std::filesystem::remove(path_, unused);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::string dot_of(cudaGraph_t graph) {
  const TemporaryFile file;
  cuda::check(cudaGraphDebugDotPrint(graph, file.path().c_str(), 0), "printing a graph");
  std::ifstream stream(file.path());
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream || text.str().empty())
    throw Error("the file of a printed graph cannot be read: " + file.path());
  return text.str();
}

}  // namespace sluice::graphs
