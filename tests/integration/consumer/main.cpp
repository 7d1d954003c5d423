#include <iostream>

#include "sluice/pipeline.hpp"

int main() {
  const sluice::Pipeline pipeline = sluice::Pipeline::chain(4, 8);
  std::cout << pipeline.stages() << " stages, " << pipeline.microbatches() << " microbatches\n";
}
