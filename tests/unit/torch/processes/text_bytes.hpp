#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sluice/torch/step_exchange.hpp"

namespace sluice::gpt::test {

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

inline std::string text_of(const SharedBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

inline std::string text_of(const std::vector<SharedBytes>& all) {
  std::string text;
  for (const SharedBytes& bytes : all) text += text_of(bytes) + ";";
  return text;
}

}  // namespace sluice::gpt::test
