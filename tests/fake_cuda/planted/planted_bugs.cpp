// Runs one program: `planted_bugs <name> wrong|correct`.

#include <cstdio>
#include <string_view>

#include "planted_bug.hpp"

namespace {

constexpr int kUsage = 2;

const planted::PlantedBug* find(std::string_view name) {
  for (const auto bugs : planted::all_bugs()) {
    for (const planted::PlantedBug& bug : bugs) {
      if (name == bug.name) return &bug;
    }
  }
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view how = count == 3 ? arguments[2] : "";
  const planted::PlantedBug* bug = count == 3 ? find(arguments[1]) : nullptr;
  if (bug == nullptr || (how != "wrong" && how != "correct")) {
    std::fprintf(stderr, "usage: planted_bugs NAME wrong|correct\n");
    return kUsage;
  }
  bug->run(how == "wrong");
}
