#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace sluice::gpt {

/// Names one microbatch of the run's data.
struct BatchKey {
  std::uint64_t seed = 0;
  /// Training steps before this one; evaluation iterations do not count.
  std::uint64_t step = 0;
  std::uint32_t microbatch = 0;
};

/// Bytes to train on, with a fixed tail held out for evaluation. Immutable, safe from any thread.
class TextData {
 public:
  /// @param context tokens of one row
  /// @throws ConfigError naming `text` if there are not `context + 1` bytes to train on
  TextData(std::string bytes, std::uint32_t context);

  /// Reads files, and all text files below folders, sorted by path; hidden and binary files are skipped.
  /// @throws ConfigError naming `text` if a path cannot be read or holds no text, or if all is too short
  static TextData load(std::span<const std::filesystem::path> paths, std::uint32_t context);

  /// @throws as the overload for several paths
  static TextData load(const std::filesystem::path& path, std::uint32_t context);

  [[nodiscard]] std::size_t training_bytes() const noexcept { return training_bytes_; }
  /// 0 if the text is too short to hold a part out.
  [[nodiscard]] std::size_t held_out_bytes() const noexcept { return bytes_.size() - training_bytes_; }
  /// @throws ConfigError naming `text` if nothing is held out, so that there can be no evaluation
  void require_held_out() const;

  /// Fills rows of `context` tokens; targets are the inputs moved on by one byte.
  /// The rows depend on the key only. Both spans hold rows * context elements, row by row.
  void training_batch(const BatchKey& key, std::span<std::int64_t> inputs,
                      std::span<std::int64_t> targets) const;

  /// As `training_batch`, from the held-out part and the same rows at every step.
  /// @throws ConfigError naming `text` if nothing is held out
  void held_out_batch(const BatchKey& key, std::span<std::int64_t> inputs,
                      std::span<std::int64_t> targets) const;

 private:
  void copy_row(std::size_t begin, std::span<std::int64_t> inputs, std::span<std::int64_t> targets) const;

  std::string bytes_;
  std::uint32_t context_;
  std::size_t training_bytes_;
};

}  // namespace sluice::gpt
