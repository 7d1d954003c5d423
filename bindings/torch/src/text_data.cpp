#include "sluice/torch/text_data.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "counter_hash.hpp"
#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeldOutDivisor = 20;  // a twentieth of the text, 5 %
constexpr std::size_t kBinaryProbeBytes = 8192;

[[noreturn]] void refuse(const std::string& reason) { throw ConfigError("text", reason); }

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream.is_open() || stream.bad()) refuse("cannot read " + path.string());
  return bytes;
}

bool is_binary(const std::string& bytes) {
  return bytes.substr(0, kBinaryProbeBytes).find('\0') != std::string::npos;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code broken_link;
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(broken_link)) {
      files.push_back(entry->path());
    }
  }
  if (error) refuse("cannot read folder " + folder.string() + ": " + error.message());
  std::ranges::sort(files, {}, [](const fs::path& path) { return path.generic_string(); });
  return files;
}

std::string read_text(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) refuse("no such file or folder: " + path.string());
  std::string text;
  if (fs::is_directory(status)) {
    for (const fs::path& file : files_below(path)) {
      const std::string bytes = read_file(file);
      if (!is_binary(bytes)) text += bytes;
    }
  } else {
    if (!fs::is_regular_file(status)) refuse(path.string() + " is neither a file nor a folder");
    text = read_file(path);
    if (is_binary(text)) refuse(path.string() + " is a binary file");
  }
  if (text.empty()) refuse("no text in " + path.string());
  return text;
}

/// Bytes left for training once the tail is held out, if both parts are long enough for a row.
std::size_t training_share(std::size_t bytes, std::size_t row_bytes) {
  const std::size_t held_out = bytes / kHeldOutDivisor;
  return held_out >= row_bytes ? bytes - held_out : bytes;
}

}  // namespace

TextData::TextData(std::string bytes, std::uint32_t context)
    : bytes_(std::move(bytes)),
      context_(context),
      training_bytes_(training_share(bytes_.size(), std::size_t{context} + 1)) {
  if (context == 0) throw ConfigError("context", "must be at least 1");
  if (bytes_.empty()) refuse("is empty");
  if (bytes_.size() < std::size_t{context} + 1) {
    refuse("has " + std::to_string(bytes_.size()) + " bytes, but a context of " + std::to_string(context) +
           " needs at least " + std::to_string(std::size_t{context} + 1));
  }
}

TextData TextData::load(std::span<const fs::path> paths, std::uint32_t context) {
  std::string text;
  for (const fs::path& path : paths) text += read_text(path);
  return {std::move(text), context};
}

TextData TextData::load(const fs::path& path, std::uint32_t context) {
  return load(std::span(&path, 1), context);
}

void TextData::require_held_out() const {
  if (held_out_bytes() == 0) {
    refuse("is too short to hold a part out for evaluation: it needs " +
           std::to_string(kHeldOutDivisor * (std::size_t{context_} + 1)) + " bytes and has " +
           std::to_string(bytes_.size()));
  }
}

void TextData::copy_row(std::size_t begin, std::span<std::int64_t> inputs,
                        std::span<std::int64_t> targets) const {
  for (std::size_t i = 0; i < context_; ++i) {
    inputs[i] = static_cast<unsigned char>(bytes_[begin + i]);
    targets[i] = static_cast<unsigned char>(bytes_[begin + i + 1]);
  }
}

void TextData::training_batch(const BatchKey& key, std::span<std::int64_t> inputs,
                              std::span<std::int64_t> targets) const {
  const std::size_t starts = training_bytes_ - context_;
  for (std::size_t row = 0; row * context_ < inputs.size(); ++row) {
    const std::uint64_t draw =
        counter_hash({counter(RandomUse::TrainingBatch), key.seed, key.step, key.microbatch, row});
    copy_row(draw % starts, inputs.subspan(row * context_, context_),
             targets.subspan(row * context_, context_));
  }
}

void TextData::held_out_batch(const BatchKey& key, std::span<std::int64_t> inputs,
                              std::span<std::int64_t> targets) const {
  require_held_out();
  const std::size_t starts = held_out_bytes() - context_;
  for (std::size_t row = 0; row * context_ < inputs.size(); ++row) {
    const std::uint64_t draw =
        counter_hash({counter(RandomUse::HeldOutBatch), key.seed, key.microbatch, row});
    copy_row(training_bytes_ + draw % starts, inputs.subspan(row * context_, context_),
             targets.subspan(row * context_, context_));
  }
}

}  // namespace sluice::gpt
