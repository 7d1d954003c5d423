#include "sluice/trace/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <optional>
#include <system_error>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::trace {
namespace {

namespace fs = std::filesystem;

std::string cause(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail(const fs::path& path, int error) {
  throw Error("cannot write " + path.string() + ": " + cause(error));
}

/// An open file, closed at the end of its scope.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0666)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }

  /// The error of the call that failed, or 0.
  [[nodiscard]] int write(std::string_view contents) const {
    while (!contents.empty()) {
      const ssize_t written = ::write(fd_, contents.data(), contents.size());
      if (written < 0 && errno != EINTR) return errno;
      if (written > 0) contents.remove_prefix(static_cast<std::size_t>(written));
    }
    return 0;
  }

  /// As `write`, of a descriptor that was opened without waiting.
  [[nodiscard]] int write_blocking(std::string_view contents) const {
    return ::fcntl(fd_, F_SETFL, 0) == 0 ? write(contents) : errno;
  }

  /// Some file systems report a failed write only here.
  [[nodiscard]] int close() {
    const int result = ::close(std::exchange(fd_, -1));
    return result == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

/// A new file in a folder, removed at the end of its scope unless it became `target`.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& folder)
      : path_(folder / unused_name()), file_(path_, O_CREAT | O_EXCL) {
    error_ = file_.is_open() ? 0 : errno;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (left_here()) ::unlink(path_.c_str());
  }

  [[nodiscard]] int error() const { return error_; }

  [[nodiscard]] int become(const fs::path& target, std::string_view contents) {
    struct stat old {};
    if (::stat(target.c_str(), &old) == 0 && ::fchmod(file_.get(), old.st_mode & 07777) != 0) return errno;
    if (const int error = file_.write(contents); error != 0) return error;
    if (const int error = file_.close(); error != 0) return error;
    if (::rename(path_.c_str(), target.c_str()) != 0) return errno;
    moved_ = true;
    return 0;
  }

 private:
  [[nodiscard]] bool left_here() const { return error_ == 0 && !moved_; }

  static std::string unused_name() {
    struct timespec now {};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return ".sluice-" + std::to_string(::getpid()) + "-" + std::to_string(now.tv_sec) + "-" +
           std::to_string(now.tv_nsec) + ".tmp";
  }

  fs::path path_;
  Descriptor file_;
  int error_ = 0;
  bool moved_ = false;
};

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Where the bytes really go: the rename must replace a link's target, not the link.
fs::path resolved(const fs::path& path) {
  std::error_code ignored;
  if (fs::path target = fs::canonical(path, ignored); !ignored) return target;
  const fs::path link = fs::read_symlink(path, ignored);
  return ignored ? path : folder_of(path) / link;
}

/// Why the path cannot be written, if that is so.
std::optional<std::string> obstacle(const fs::path& path) {
  if (path.empty()) return "the path is empty";
  if (!path.has_filename()) return path.string() + " names a folder";
  struct stat entry {};
  const int found = ::stat(path.c_str(), &entry) == 0 ? 0 : errno;
  if (found == 0 && S_ISDIR(entry.st_mode)) return path.string() + " is a folder";
  if (found == 0 && ::access(path.c_str(), W_OK) != 0) return path.string() + ": " + cause(errno);
  if (found == 0 && !S_ISREG(entry.st_mode)) return std::nullopt;
  const fs::path folder = folder_of(found == 0 ? resolved(path) : path);
  std::error_code ignored;
  if (found == ENOENT && !fs::exists(folder, ignored)) return "folder " + folder.string() + " does not exist";
  if (found != 0 && found != ENOENT) return path.string() + ": " + cause(found);
  const TemporaryFile probe(folder);
  if (probe.error() != 0) return "cannot create a file in " + folder.string() + ": " + cause(probe.error());
  return std::nullopt;
}

}  // namespace

void check_writable(const std::string& field, const fs::path& path) {
  if (const auto reason = obstacle(path)) throw ConfigError(field, *reason);
}

void write_file_atomically(const fs::path& path, std::string_view contents) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
    // Without a reader, opening a pipe would wait for one.
    const Descriptor file(path, O_NONBLOCK);
    if (!file.is_open()) fail(path, errno);
    if (const int error = file.write_blocking(contents); error != 0) fail(path, error);
    return;
  }
  const fs::path target = resolved(path);
  TemporaryFile file(folder_of(target));
  if (file.error() != 0) fail(path, file.error());
  if (const int error = file.become(target, contents); error != 0) fail(path, error);
}

}  // namespace sluice::trace
