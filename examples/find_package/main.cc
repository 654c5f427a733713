// Prints the library's version and an element type's name: the least that shows it links.
#include <iostream>

#include "tilewright/ir/type.h"
#include "tilewright/version.h"

int main() {
  std::cout << "tilewright " << TILEWRIGHT_VERSION << " (" << tilewright::build_revision() << ")\n"
            << "element types: " << tilewright::elem_type_names() << "\n";
}
