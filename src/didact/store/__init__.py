"""Records and explanations on disk, as Parquet that any tool reads.

records.to_table(rows), .from_table(table)          one measured number per row
explanations.to_table(found), .from_table(table)    one explanation per row, exactly as it was
files.write(path, table), files.read(path)          equal tables give equal bytes; a torn file is never seen
outcomes.OutcomeStore(parts, make)                  what a student answered, by content hash
parts.Parts(folder)                                 many small tables by content hash: what a killed run resumes from
"""
