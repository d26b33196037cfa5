"""What people see of the service: pages that are made on the server, and the files that they load."""
