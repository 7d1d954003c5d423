#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "sluice/error.hpp"

namespace sluice::test {

/// What a forked rank ends with if an error was another one than expected, or none.
inline constexpr int kWrongError = 3;
inline constexpr int kNoError = 4;

/// 0 if `call` throws an error that has all the words.
inline int expect_error(const std::function<void()>& call, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Error& error) {
    for (const std::string& word : words) {
      if (std::string(error.what()).find(word) != std::string::npos) continue;
      std::fprintf(stderr, "not in \"%s\": %s\n", error.what(), word.c_str());
      return kWrongError;
    }
    return 0;
  }
  return kNoError;
}

}  // namespace sluice::test
