#pragma once

#include <cstdint>

namespace sluice::gpt {

/// Size of the image encoder that makes a GPT a multimodal model: a vision transformer, whose output
/// tokens precede those of the text.
struct VitConfig {
  /// Side of a patch in pixels.
  static constexpr std::uint32_t kPatchSide = 8;
  /// Red, green and blue of its pixels.
  static constexpr std::uint32_t kPatchValues = 3 * kPatchSide * kPatchSide;
  /// Smallest side of an image in patches.
  static constexpr std::uint32_t kSmallestGrid = 2;

  std::uint32_t layers = 2;
  std::uint32_t width = 64;
  std::uint32_t heads = 4;
  /// Largest side of an image in patches. The images of one microbatch have one size.
  std::uint32_t largest_grid = 10;
  /// Chunks at the head of the chain that hold the encoder and nothing else; 0 to divide the blocks of
  /// encoder and GPT together over all chunks.
  std::uint32_t chunks = 0;

  /// @throws ConfigError naming the first bad field as the command line spells it (`encoder-layers`)
  void validate() const;
};

}  // namespace sluice::gpt
